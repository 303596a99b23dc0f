package nof

import "github.com/espalier-run/espalier/internal/diag"

// Codes of problems with a NOF file.
const (
	CodeVersion     diag.Code = "NOF001" // no version, or an unsupported one
	CodeMissing     diag.Code = "NOF002" // a required key is missing
	CodeWrongType   diag.Code = "NOF003" // a value of the wrong type
	CodeUnknownKey  diag.Code = "NOF004" // an unknown key
	CodeBadValue    diag.Code = "NOF005" // a value that is not allowed
	CodeSection     diag.Code = "NOF006" // a required section or heading is missing
	CodeRecommended diag.Code = "NOF007" // a recommended section is missing
	CodeName        diag.Code = "NOF008" // heading and frontmatter disagree on the name
	CodeFileName    diag.Code = "NOF009" // a file name that does not end in .nof.md
	CodeMinor       diag.Code = "NOF010" // a later minor version
	CodeBlock       diag.Code = "NOF011" // a section without its code block, or with several
	CodeAgent       diag.Code = "NOF012" // an unknown agent
	CodeTwice       diag.Code = "NOF013" // an agent that is listed twice
	CodeCrew        diag.Code = "NOF014" // a crew member that is not an agent of the workflow
	CodeSchema      diag.Code = "NOF015" // an invalid state schema, or one with another name
	CodeAccumulator diag.Code = "NOF016" // a required accumulator is missing
	CodeAnnotation  diag.Code = "NOF017" // an unsupported annotation or reducer
	CodeNode        diag.Code = "NOF018" // an agent without a node function, or several
	CodeNodeName    diag.Code = "NOF019" // a node function not named after its agent
	CodeWholeState  diag.Code = "NOF020" // a node that passes the whole state to an agent
	CodeField       diag.Code = "NOF021" // a field that the state schema does not have
	CodeRule        diag.Code = "NOF022" // an invalid routing rule
	CodeInert       diag.Code = "NOF023" // rules that the routing mode ignores
	CodeRuleName    diag.Code = "NOF024" // a rule about an agent or a field that does not exist
	CodeUnsafeCrew  diag.Code = "NOF025" // a crew with members that depend on each other
	CodeSharedField diag.Code = "NOF026" // a field that several members of a crew overwrite
	CodeEstimate    diag.Code = "NOF027" // a cost estimate that is not the worst case
	CodeCeiling     diag.Code = "NOF028" // a ceiling in the prose that the worst case exceeds
	CodePolicy      diag.Code = "NOF029" // a failure policy that only the prose states
	CodeDiagram     diag.Code = "NOF030" // the diagram and the list of agents disagree
	CodeOrder       diag.Code = "NOF031" // the diagram or the pipeline has another order
	CodePipeline    diag.Code = "NOF032" // the pipeline and the list of agents disagree
	CodeDepends     diag.Code = "NOF033" // depends_on and the arrows disagree
	CodeDrawnCrew   diag.Code = "NOF034" // crews and subgraphs disagree
	CodeTier        diag.Code = "NOF035" // a class in the diagram is not the tier of the agent
	CodeDrawnRule   diag.Code = "NOF036" // conditional arrows and routing rules disagree
	CodeCheckpoint  diag.Code = "NOF037" // a checkpoint outside of the run folder
	CodeRegistry    diag.Code = "NOF038" // an invalid file of the agent registry
	CodeRouteBack   diag.Code = "NOF039" // a route to an agent that has already run
)
