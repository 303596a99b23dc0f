package nof

import "github.com/espalier-run/espalier/internal/diag"

// What can be wrong with a NOF file.
const (
	CodeVersion     diag.Code = "NOF001" // no version, or one that cannot be read
	CodeMissing     diag.Code = "NOF002" // a key that must be there
	CodeWrongType   diag.Code = "NOF003" // a value of the wrong type
	CodeUnknownKey  diag.Code = "NOF004" // a key that means nothing
	CodeBadValue    diag.Code = "NOF005" // a value that is not one of those allowed
	CodeSection     diag.Code = "NOF006" // a section or heading that must be there
	CodeRecommended diag.Code = "NOF007" // a section that should be there
	CodeName        diag.Code = "NOF008" // the heading and the frontmatter name the workflow differently
	CodeFileName    diag.Code = "NOF009" // a file whose name does not end in .nof.md
	CodeMinor       diag.Code = "NOF010" // a later minor version
	CodeBlock       diag.Code = "NOF011" // a section without its code block, or with several
	CodeAgent       diag.Code = "NOF012" // an agent that nobody knows
	CodeTwice       diag.Code = "NOF013" // an agent that is listed twice
	CodeCrew        diag.Code = "NOF014" // a crew with a member that does not take part
	CodeSchema      diag.Code = "NOF015" // a state schema that is not one, or not the one that is named
	CodeAccumulator diag.Code = "NOF016" // an accumulator that every schema must have
	CodeAnnotation  diag.Code = "NOF017" // an annotation or reducer that means nothing here
	CodeNode        diag.Code = "NOF018" // an agent without a node function, or several
	CodeNodeName    diag.Code = "NOF019" // a node function with another name than its agent
	CodeWholeState  diag.Code = "NOF020" // a node that hands all of the state to an agent
	CodeField       diag.Code = "NOF021" // a field that the state schema does not have
	CodeRule        diag.Code = "NOF022" // a routing rule that cannot be read
	CodeInert       diag.Code = "NOF023" // rules that the routing mode does not look at
	CodeRuleName    diag.Code = "NOF024" // a rule about an agent or a field that does not exist
	CodeUnsafeCrew  diag.Code = "NOF025" // a crew whose members need each other
	CodeSharedField diag.Code = "NOF026" // a field that several members of a crew overwrite
	CodeEstimate    diag.Code = "NOF027" // a cost estimate that is not the worst case
	CodeCeiling     diag.Code = "NOF028" // a ceiling in the prose that the worst case exceeds
	CodePolicy      diag.Code = "NOF029" // a failure policy that only the prose knows
	CodeDiagram     diag.Code = "NOF030" // the diagram and the list of agents disagree
	CodeOrder       diag.Code = "NOF031" // the diagram or the pipeline has another order
	CodePipeline    diag.Code = "NOF032" // the pipeline and the list of agents disagree
	CodeDepends     diag.Code = "NOF033" // depends_on and the arrows disagree
	CodeDrawnCrew   diag.Code = "NOF034" // crews and subgraphs disagree
	CodeTier        diag.Code = "NOF035" // a class in the diagram is not the tier of the agent
	CodeDrawnRule   diag.Code = "NOF036" // conditional arrows and routing rules disagree
	CodeCheckpoint  diag.Code = "NOF037" // a checkpoint outside of the run's folder
	CodeRegistry    diag.Code = "NOF038" // a file of the agent registry that cannot be used
)
