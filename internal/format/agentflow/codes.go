package agentflow

import "github.com/espalier-run/espalier/internal/diag"

// What can be wrong with the keys of the frontmatter or of a block.
const (
	CodeMissing      diag.Code = "AF001" // a key that must be there
	CodeWrongType    diag.Code = "AF002" // a value of the wrong type
	CodeBadValue     diag.Code = "AF003" // a value that is not among the allowed ones
	CodeUnknownKey   diag.Code = "AF004" // a key that nothing knows, in a workflow
	CodeNotForType   diag.Code = "AF005" // a key that means nothing to this type of step
	CodeDuplicate    diag.Code = "AF006" // two things of the same name
	CodeSecondBlock  diag.Code = "AF007" // a second block where there can be only one
	CodeBadID        diag.Code = "AF008" // an id with characters that cannot be used
	CodeConvention   diag.Code = "AF009" // a name that is not written as is usual
	CodeNeedsVersion diag.Code = "AF010" // a workflow without a version
	CodeNoSteps      diag.Code = "AF011" // a workflow without steps
	CodeTimezone     diag.Code = "AF012" // a time zone without a schedule
	CodeSkillKey     diag.Code = "AF013" // a key of skills that does nothing in a workflow
	CodeNoValue      diag.Code = "AF014" // a key without a value
	CodeStray        diag.Code = "AF015" // a value that ends in a quotation mark or bracket which nothing opened
)

// What can be unusual about a SKILL.md, and is accepted.
const (
	CodeNoFrontmatter   diag.Code = "AF020" // no frontmatter at all
	CodeRepaired        diag.Code = "AF021" // YAML that could be read only after quoting
	CodeSkillUnknownKey diag.Code = "AF022" // a key outside the Agent Skills rules
	CodeSkillType       diag.Code = "AF023" // a value of an unusual type
	CodeSkillName       diag.Code = "AF024" // a name that breaks the rules of names
	CodeFolderName      diag.Code = "AF025" // a name that is not the folder's
	CodeNoDescription   diag.Code = "AF026" // no description
	CodeTooLong         diag.Code = "AF027" // a text that is longer than allowed
	CodeOtherKind       diag.Code = "AF028" // a kind that is not Agent Flow's
)

// What can be wrong with the blocks as parts of a document.
const (
	CodeNoKind    diag.Code = "AF030" // blocks in a file that is not a workflow
	CodeNearFence diag.Code = "AF031" // a fence whose label looks like a known one
	CodeUnlabeled diag.Code = "AF032" // a fence in a section of blocks without a label
	CodeSection   diag.Code = "AF033" // a block under another heading than usual
)

// What can be wrong with steps.
const (
	CodeNoStep       diag.Code = "AF040" // a name of a step that does not exist
	CodeKey          diag.Code = "AF041" // a key of the state that cannot be one
	CodeWritesInput  diag.Code = "AF042" // writing to the input
	CodeOnError      diag.Code = "AF043" // on_error and fallback that do not fit together
	CodeOwnFallback  diag.Code = "AF044" // a step that is its own fallback
	CodeEarlyFall    diag.Code = "AF045" // a fallback that stands before its step
	CodeGeneric      diag.Code = "AF046" // work that no agent was named for
	CodeGateDecider  diag.Code = "AF047" // a gate that nobody can decide
	CodeSelector     diag.Code = "AF048" // a decision that reads several keys
	CodeSiblings     diag.Code = "AF049" // an arm that runs on into its sibling's steps
	CodeErrorClass   diag.Code = "AF050" // an unknown class of errors
	CodeUnusedChoice diag.Code = "AF051" // a key that another one makes useless
	CodeBound        diag.Code = "AF052" // what a bare name stands for
	CodeAmbiguous    diag.Code = "AF053" // a bare name that could be two things
	CodePassThrough  diag.Code = "AF054" // a transform that only checks the input
	CodeFileOutside  diag.Code = "AF055" // a file outside of the run's folder
)

// What can be wrong with bundles, runtime and observability.
const (
	CodeNoBundle     diag.Code = "AF060" // a bundle that does not exist
	CodeUnusedBundle diag.Code = "AF061" // a bundle that no step uses
	CodeWorker       diag.Code = "AF062" // a worker that nobody does
	CodeInterval     diag.Code = "AF063" // a checkpoint interval that cannot be read, or does nothing
	CodeWaitpoint    diag.Code = "AF064" // a waitpoint that cannot work
	CodeEvent        diag.Code = "AF065" // an audit event or id that does not exist
	CodePattern      diag.Code = "AF066" // how a redaction pattern is understood
)

// What can be wrong with references to other files, and with overlays.
const (
	CodeRefMissing  diag.Code = "AF070" // nothing is there
	CodeRefAbsolute diag.Code = "AF071" // an absolute path
	CodeRefEscapes  diag.Code = "AF072" // a path that leaves the project
	CodeRefUnusable diag.Code = "AF073" // a folder, or a file that cannot be read
	CodeSchemaFile  diag.Code = "AF074" // a schema file that is not JSON
	CodeTwoSchemas  diag.Code = "AF075" // a schema here and in a file
	CodeUnusedBase  diag.Code = "AF080" // a base skill that no step uses
	CodeTarget      diag.Code = "AF081" // an override of something unknown
	CodeNoBase      diag.Code = "AF082" // something for a base skill, but there is none
)
