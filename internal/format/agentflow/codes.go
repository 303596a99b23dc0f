package agentflow

import "github.com/espalier-run/espalier/internal/diag"

// Codes of problems with the keys of the frontmatter or of a block.
const (
	CodeMissing      diag.Code = "AF001" // a required key is missing
	CodeWrongType    diag.Code = "AF002" // a value of the wrong type
	CodeBadValue     diag.Code = "AF003" // a value that is not allowed
	CodeUnknownKey   diag.Code = "AF004" // an unknown key in a workflow
	CodeNotForType   diag.Code = "AF005" // a key that has no effect in this type of step
	CodeDuplicate    diag.Code = "AF006" // two definitions with the same name
	CodeSecondBlock  diag.Code = "AF007" // a second block of a kind that may occur once
	CodeBadID        diag.Code = "AF008" // an id with invalid characters
	CodeConvention   diag.Code = "AF009" // a name that does not follow the naming convention
	CodeNeedsVersion diag.Code = "AF010" // a workflow without a version
	CodeNoSteps      diag.Code = "AF011" // a workflow without steps
	CodeTimezone     diag.Code = "AF012" // a time zone without a schedule
	CodeSkillKey     diag.Code = "AF013" // a key of skills that has no effect in a workflow
	CodeNoValue      diag.Code = "AF014" // a key without a value
	CodeStray        diag.Code = "AF015" // a value that ends in an unmatched quotation mark or bracket
)

// Codes of deviations in a SKILL.md that are accepted.
const (
	CodeNoFrontmatter   diag.Code = "AF020" // no frontmatter
	CodeRepaired        diag.Code = "AF021" // YAML that is valid only after quoting
	CodeSkillUnknownKey diag.Code = "AF022" // a key outside the Agent Skills rules
	CodeSkillType       diag.Code = "AF023" // a value of an unusual type
	CodeSkillName       diag.Code = "AF024" // a name that breaks the naming rules
	CodeFolderName      diag.Code = "AF025" // a name that differs from the folder's
	CodeNoDescription   diag.Code = "AF026" // no description
	CodeTooLong         diag.Code = "AF027" // a text that exceeds its length limit
	CodeOtherKind       diag.Code = "AF028" // a kind that is not Agent Flow's
)

// Codes of problems with blocks as parts of a document.
const (
	CodeNoKind    diag.Code = "AF030" // blocks in a file that is not a workflow
	CodeNearFence diag.Code = "AF031" // a fence with a label similar to a known one
	CodeUnlabeled diag.Code = "AF032" // an unlabeled fence in a section of blocks
	CodeSection   diag.Code = "AF033" // a block under an unexpected heading
)

// Codes of problems with steps.
const (
	CodeNoStep       diag.Code = "AF040" // a reference to an undefined step
	CodeKey          diag.Code = "AF041" // an invalid state key
	CodeWritesInput  diag.Code = "AF042" // a write to the input
	CodeOnError      diag.Code = "AF043" // on_error and fallback that contradict each other
	CodeOwnFallback  diag.Code = "AF044" // a step that is its own fallback
	CodeEarlyFall    diag.Code = "AF045" // a fallback that precedes its step
	CodeGeneric      diag.Code = "AF046" // work without a named agent
	CodeGateDecider  diag.Code = "AF047" // a gate without a decider
	CodeSelector     diag.Code = "AF048" // a decision that reads several keys
	CodeSiblings     diag.Code = "AF049" // a branch that continues into its sibling's steps
	CodeErrorClass   diag.Code = "AF050" // an unknown error class
	CodeUnusedChoice diag.Code = "AF051" // a key that another key makes ineffective
	CodeBound        diag.Code = "AF052" // the meaning of a bare name
	CodeAmbiguous    diag.Code = "AF053" // a bare name with two meanings
	CodePassThrough  diag.Code = "AF054" // a transform that only validates the input
	CodeFileOutside  diag.Code = "AF055" // a file outside of the run folder
)

// Codes of problems with bundles, runtime and observability.
const (
	CodeNoBundle     diag.Code = "AF060" // an undefined bundle
	CodeUnusedBundle diag.Code = "AF061" // a bundle that no step uses
	CodeWorker       diag.Code = "AF062" // a worker without an agent
	CodeInterval     diag.Code = "AF063" // a checkpoint interval that is invalid or has no effect
	CodeWaitpoint    diag.Code = "AF064" // a waitpoint that cannot work
	CodeEvent        diag.Code = "AF065" // an unknown audit event or id
	CodePattern      diag.Code = "AF066" // the interpretation of a redaction pattern
	CodeApprovers    diag.Code = "AF067" // approvers that cannot work or have no effect
)

// Codes of problems with references to other files, and with overlays.
const (
	CodeRefMissing  diag.Code = "AF070" // the file does not exist
	CodeRefAbsolute diag.Code = "AF071" // an absolute path
	CodeRefEscapes  diag.Code = "AF072" // a path that leaves the project
	CodeRefUnusable diag.Code = "AF073" // a folder, or an unreadable file
	CodeSchemaFile  diag.Code = "AF074" // a schema file that is not JSON
	CodeTwoSchemas  diag.Code = "AF075" // a schema both inline and in a file
	CodeUnusedBase  diag.Code = "AF080" // a base skill that no step uses
	CodeTarget      diag.Code = "AF081" // an override of an unknown target
	CodeNoBase      diag.Code = "AF082" // a base skill's override without a base skill
)
