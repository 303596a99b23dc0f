package artifact

import "github.com/espalier-run/espalier/internal/diag"

// CodeNoDraft is a draft that there are no rules for.
const CodeNoDraft diag.Code = "AFILE017"
