package aiflow

import "github.com/espalier-run/espalier/internal/diag"

// The codes that the format's own validator knows by these names.
const (
	CodeInvalidProject    diag.Code = "INVALID_PROJECT"              // not an object with agents and a flow
	CodeMissingEntry      diag.Code = "MISSING_ENTRY_AGENT"          // nothing says which agent begins
	CodeInvalidEntry      diag.Code = "INVALID_ENTRY_AGENT"          // the agent that begins does not exist
	CodeNoAgents          diag.Code = "NO_AGENTS_DEFINED"            // there is no agent
	CodeAgentInvalid      diag.Code = "AGENT_INVALID"                // an agent that is not an object
	CodeAgentNoID         diag.Code = "AGENT_MISSING_ID"             // an agent of a list without id
	CodeDuplicateAgent    diag.Code = "DUPLICATE_AGENT_ID"           // two agents of one id
	CodeInvalidRule       diag.Code = "LOGIC_INVALID_RULE"           // a rule that is not an object
	CodeRuleNoFrom        diag.Code = "LOGIC_MISSING_FROM"           // a rule that belongs to no agent
	CodeRuleUnknownFrom   diag.Code = "LOGIC_UNKNOWN_FROM"           // a rule of an agent that does not exist
	CodeRuleUnknownTo     diag.Code = "LOGIC_UNKNOWN_TO"             // a rule to an agent that does not exist
	CodeUnknownPrompt     diag.Code = "AGENT_UNKNOWN_PROMPT"         // a prompt that the prompts do not have
	CodeToolInvalid       diag.Code = "TOOL_INVALID"                 // a tool that cannot be understood
	CodeDuplicateTool     diag.Code = "DUPLICATE_TOOL_ID"            // two tools of one id
	CodeUnknownTool       diag.Code = "AGENT_TOOL_UNKNOWN"           // an agent's tool that is not among the tools
	CodeModelIncomplete   diag.Code = "AGENT_MODEL_INCOMPLETE"       // an agent without provider or model
	CodeRuleNoTo          diag.Code = "LOGIC_MISSING_TO"             // a rule that leads nowhere
	CodeRuleNoCondition   diag.Code = "LOGIC_MISSING_CONDITION"      // a rule without a condition
	CodeSeveralAlways     diag.Code = "LOGIC_MULTIPLE_ALWAYS"        // a rule after one that always holds
	CodeSameCondition     diag.Code = "LOGIC_DUPLICATE_CONDITION"    // two rules of one agent with one condition
	CodePromptUnused      diag.Code = "PROMPT_UNUSED"                // a prompt that no agent uses
	CodeToolsWithoutTools diag.Code = "AGENT_TOOLS_WITHOUT_REGISTRY" // an agent lists tools and the file has none
	CodeToolUnused        diag.Code = "TOOL_UNUSED"                  // a tool that no agent lists
	CodeUnreachable       diag.Code = "UNREACHABLE_AGENT"            // an agent that no rule leads to
)

// Further codes, for what that validator does not look at.
const (
	CodeBareName      diag.Code = "AIFLOW_BARE_NAME"      // a name without context. or output. before it
	CodeMissingField  diag.Code = "AIFLOW_MISSING_FIELD"  // a name of the context that nothing sets
	CodePromptMissing diag.Code = "AIFLOW_PROMPT_MISSING" // a prompt that is neither a key, nor a file, nor a text
	CodeTwoEntries    diag.Code = "AIFLOW_TWO_ENTRIES"    // start and entry_agent disagree
	CodeMetadata      diag.Code = "AIFLOW_METADATA"       // metadata that the standard asks for is missing
	CodeNotExhaustive diag.Code = "AIFLOW_NOT_EXHAUSTIVE" // rules that may all not hold
	CodeWrongType     diag.Code = "AIFLOW_WRONG_TYPE"     // a value of another type
	CodeUnknownKey    diag.Code = "AIFLOW_UNKNOWN_KEY"    // a key that means nothing
	CodeBadValue      diag.Code = "AIFLOW_BAD_VALUE"      // a value that is not one of those allowed
	CodeNoSection     diag.Code = "AIFLOW_NO_SECTION"     // a section that the standard asks for is missing
	CodeSecretInFile  diag.Code = "AIFLOW_SECRET_IN_FILE" // a key or token that stands in the file
)
