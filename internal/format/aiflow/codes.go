package aiflow

import "github.com/espalier-run/espalier/internal/diag"

// Codes with the names of the format's own validator.
const (
	CodeInvalidProject    diag.Code = "INVALID_PROJECT"              // not an object with agents and a flow
	CodeMissingEntry      diag.Code = "MISSING_ENTRY_AGENT"          // no agent to start with
	CodeInvalidEntry      diag.Code = "INVALID_ENTRY_AGENT"          // the starting agent is not defined
	CodeNoAgents          diag.Code = "NO_AGENTS_DEFINED"            // no agents
	CodeAgentInvalid      diag.Code = "AGENT_INVALID"                // an agent that is not an object
	CodeAgentNoID         diag.Code = "AGENT_MISSING_ID"             // an agent in a list without an id
	CodeDuplicateAgent    diag.Code = "DUPLICATE_AGENT_ID"           // two agents with the same id
	CodeInvalidRule       diag.Code = "LOGIC_INVALID_RULE"           // a rule that is not an object
	CodeRuleNoFrom        diag.Code = "LOGIC_MISSING_FROM"           // a rule without an agent
	CodeRuleUnknownFrom   diag.Code = "LOGIC_UNKNOWN_FROM"           // a rule of an undefined agent
	CodeRuleUnknownTo     diag.Code = "LOGIC_UNKNOWN_TO"             // a rule to an undefined agent
	CodeUnknownPrompt     diag.Code = "AGENT_UNKNOWN_PROMPT"         // an undefined prompt
	CodeToolInvalid       diag.Code = "TOOL_INVALID"                 // an invalid tool
	CodeDuplicateTool     diag.Code = "DUPLICATE_TOOL_ID"            // two tools with the same id
	CodeUnknownTool       diag.Code = "AGENT_TOOL_UNKNOWN"           // an agent's tool that the file does not define
	CodeModelIncomplete   diag.Code = "AGENT_MODEL_INCOMPLETE"       // an agent without provider or model
	CodeRuleNoTo          diag.Code = "LOGIC_MISSING_TO"             // a rule without a target
	CodeRuleNoCondition   diag.Code = "LOGIC_MISSING_CONDITION"      // a rule without a condition
	CodeSeveralAlways     diag.Code = "LOGIC_MULTIPLE_ALWAYS"        // a rule after one that always matches
	CodeSameCondition     diag.Code = "LOGIC_DUPLICATE_CONDITION"    // two rules of one agent with the same condition
	CodePromptUnused      diag.Code = "PROMPT_UNUSED"                // a prompt that no agent uses
	CodeToolsWithoutTools diag.Code = "AGENT_TOOLS_WITHOUT_REGISTRY" // an agent lists tools, but the file defines none
	CodeToolUnused        diag.Code = "TOOL_UNUSED"                  // a tool that no agent lists
	CodeUnreachable       diag.Code = "UNREACHABLE_AGENT"            // an agent that no rule leads to
)

// Further codes, for problems that the format's validator does not check.
const (
	CodeBareName      diag.Code = "AIFLOW_BARE_NAME"      // a name without the prefix context. or output.
	CodeMissingField  diag.Code = "AIFLOW_MISSING_FIELD"  // a context name that the flow does not set
	CodePromptMissing diag.Code = "AIFLOW_PROMPT_MISSING" // a prompt that is neither a key, a file nor a text
	CodeTwoEntries    diag.Code = "AIFLOW_TWO_ENTRIES"    // start and entry_agent disagree
	CodeMetadata      diag.Code = "AIFLOW_METADATA"       // metadata required by the standard is missing
	CodeNotExhaustive diag.Code = "AIFLOW_NOT_EXHAUSTIVE" // rules that may all fail to match
	CodeWrongType     diag.Code = "AIFLOW_WRONG_TYPE"     // a value of the wrong type
	CodeUnknownKey    diag.Code = "AIFLOW_UNKNOWN_KEY"    // an unknown key
	CodeBadValue      diag.Code = "AIFLOW_BAD_VALUE"      // a value that is not allowed
	CodeNoSection     diag.Code = "AIFLOW_NO_SECTION"     // a section required by the standard is missing
	CodeSecretInFile  diag.Code = "AIFLOW_SECRET_IN_FILE" // a key or token in plain text
)
