package text

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes for YAML.
const (
	CodeSyntax      diag.Code = "YAML001" // not YAML, for a reason without its own code
	CodeTab         diag.Code = "YAML002" // a tab where indentation or a value begins
	CodeColon       diag.Code = "YAML003" // ": " inside a value without quotes
	CodeQuote       diag.Code = "YAML004" // a quotation mark that is never closed
	CodeBracket     diag.Code = "YAML005" // a bracket that is never closed, or a missing comma
	CodeIndentation diag.Code = "YAML006" // inconsistent indentation
	CodeNeedsQuotes diag.Code = "YAML007" // a value that needs quotes
	CodeDuplicate   diag.Code = "YAML008" // the same key twice in one map
	CodeSecond      diag.Code = "YAML009" // a second document after ---
	CodeKey         diag.Code = "YAML010" // a list or a map as a key
	CodeAnchor      diag.Code = "YAML011" // an alias without its anchor, or inside itself
	CodeTooMuch     diag.Code = "YAML012" // nested too deeply, or aliases that expand too far
	CodeTag         diag.Code = "YAML013" // an unsupported !tag
	CodeCharacter   diag.Code = "YAML014" // bytes that are not UTF-8, or control characters
	CodeMerge       diag.Code = "YAML015" // << with something that is not a map
	CodeNumber      diag.Code = "YAML016" // infinity or "not a number"
	CodeEscape      diag.Code = "YAML017" // an unknown escape in double quotes
	CodeNotAPair    diag.Code = "YAML018" // a line that is neither "key: value" nor "- entry"
)

// Diagnostic codes for Markdown.
const (
	CodeFrontmatter diag.Code = "MD001" // the frontmatter is never closed
	CodeFence       diag.Code = "MD002" // a fenced block is never closed
	CodeQuoted      diag.Code = "MD003" // a block of the format inside a quotation
	CodeUnopened    diag.Code = "MD004" // a block whose opening line is missing
	CodeNested      diag.Code = "MD005" // lists or quotations nested too deep
)

// Diagnostic codes for JSON.
const (
	CodeJSONSyntax    diag.Code = "JSON001" // not JSON, for a reason without its own code
	CodeJSONComma     diag.Code = "JSON002" // a missing or superfluous comma
	CodeJSONQuotes    diag.Code = "JSON003" // missing or wrong quotes
	CodeJSONUnclosed  diag.Code = "JSON004" // a bracket that is never closed
	CodeJSONDuplicate diag.Code = "JSON005" // the same key twice in one object
	CodeJSONEscape    diag.Code = "JSON006" // an invalid character or escape in a string
)

// Diagnostic codes for Mermaid flowcharts.
const (
	CodeFlowHeader diag.Code = "MMD001" // not a flowchart
	CodeFlowSyntax diag.Code = "MMD002" // a line that does not parse
	CodeFlowBlock  diag.Code = "MMD003" // subgraph and end do not match
	CodeFlowLabel  diag.Code = "MMD004" // a node with two labels
)
