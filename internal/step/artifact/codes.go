package artifact

import "github.com/espalier-run/espalier/internal/diag"

// CodeNoDraft reports a draft for which there are no rules.
const CodeNoDraft diag.Code = "AFILE017"
