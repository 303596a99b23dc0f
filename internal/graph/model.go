package graph

import (
	"iter"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Graph is a picture as data: its elements, without their positions.
type Graph struct {
	Name        string  `json:"name"`
	Format      string  `json:"format,omitempty"`
	Description string  `json:"description,omitempty"`
	Nodes       []Node  `json:"nodes"`
	Groups      []Group `json:"groups,omitempty"`
	Edges       []Edge  `json:"edges"`
}

// NodeKind is what a node represents.
type NodeKind string

// The kinds of nodes.
const (
	NodeTrigger  NodeKind = "trigger"  // a way to start runs
	NodeStart    NodeKind = "start"    // the start, if the file has no trigger
	NodeStep     NodeKind = "step"     // a step
	NodeWait     NodeKind = "wait"     // a step that only waits for an event
	NodeEnd      NodeKind = "end"      // an End step, or the implied end of the body
	NodeFail     NodeKind = "fail"     // the end of an edge that fails the run or the block
	NodeExit     NodeKind = "exit"     // the end of an edge that leaves its group
	NodeArtifact NodeKind = "artifact" // a file that a step produces
	NodeFolded   NodeKind = "folded"   // steps that are not drawn one by one
)

// Node is one element of the picture.
type Node struct {
	ID   string   `json:"id"`             // unique, safe as an XML id and in a link
	Kind NodeKind `json:"kind"`           //
	Tone Tone     `json:"tone"`           // determines the color
	Icon Icon     `json:"icon,omitempty"` // a small symbol
	Step string   `json:"step,omitempty"` // path of the step: "extract.reader_1"
	// Group is the frame that contains the node, and Lane its branch.
	Group  string   `json:"group,omitempty"`
	Lane   int      `json:"lane,omitempty"`
	Order  int      `json:"order"`            // position in the document, including frames
	Label  string   `json:"label,omitempty"`  // the format's word for it
	Detail string   `json:"detail,omitempty"` // what performs it: an agent, a tool, a child
	Title  string   `json:"title,omitempty"`
	Text   string   `json:"text,omitempty"` // the description
	Notes  []Note   `json:"notes,omitempty"`
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
	Off    bool     `json:"off,omitempty"` // a disabled trigger
	Progress
	exit   ir.Exit  // of a NodeFail or NodeExit; empty if it leads to a step outside of the group
	folded []string // paths of the steps that a NodeFolded replaces; empty if it replaces a group
}

// Progress is what a run has done with a step.
type Progress struct {
	// State is the state of the step in a run. If set, pictures show it.
	State journal.State `json:"state,omitempty"`
	// Items is the progress of a fan-out or a loop.
	Items          *Items `json:"items,omitempty"`
	started, ended ir.Millis
}

// Items counts the branches of a fan-out or the iterations of a loop.
type Items struct {
	Total   int `json:"total"` // as far as it is known
	OK      int `json:"ok"`
	Failed  int `json:"failed"`
	Running int `json:"running"`
}

// started returns the number of items that have started.
func (i *Items) started() int { return i.OK + i.Failed + i.Running }

// close counts an item that ended.
func (i *Items) close(outcome journal.Outcome) {
	i.Running--
	if outcome == journal.OutcomeFailed || outcome == journal.OutcomeRejected {
		i.Failed++
	} else {
		i.OK++
	}
}

// NoteKind is the subject of a note.
type NoteKind string

// The kinds of notes.
const (
	NoteWhen  NoteKind = "when"
	NoteWait  NoteKind = "wait"
	NoteStop  NoteKind = "stop"
	NoteRetry NoteKind = "retry"
	NoteSkip  NoteKind = "skip"
	NoteCheck NoteKind = "check"
)

// Note is one short line about a step, below its description.
type Note struct {
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// The kinds of frames.
const (
	GroupBundle NodeKind = "bundle" // concurrent branches
	GroupLoop   NodeKind = "loop"   // a repeated block
)

// Group is a frame around other nodes: a bundle or a loop. It is a step as well, so edges may start and end at it.
type Group struct {
	Node
	Footer string `json:"footer,omitempty"` // how the branches join
	// Lanes are the names of the branches; a lane with one step needs none.
	Lanes []string `json:"lanes,omitempty"`
}

// all yields the nodes of the frames, then the others.
func (g *Graph) all() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for i := range g.Groups {
			if !yield(&g.Groups[i].Node) {
				return
			}
		}
		for i := range g.Nodes {
			if !yield(&g.Nodes[i]) {
				return
			}
		}
	}
}

// EdgeKind is the meaning of an edge.
type EdgeKind string

// The kinds of edges.
const (
	EdgeFlow     EdgeKind = "flow"     // to the next step
	EdgeBranch   EdgeKind = "branch"   // chosen by a decision or a condition
	EdgeJump     EdgeKind = "jump"     // an explicit jump
	EdgeSkipped  EdgeKind = "skipped"  // only if the step was skipped
	EdgeRejected EdgeKind = "rejected" // the rejection of a gate
	EdgeFailed   EdgeKind = "failed"   // after an error
	EdgeFallback EdgeKind = "fallback" // to the fallback step
	EdgeProduces EdgeKind = "produces" // from a step to its artifact
	EdgeData     EdgeKind = "data"     // from a writer to a reader of a key
)

// Edge connects two nodes or groups.
type Edge struct {
	ID    string   `json:"id"`
	Kind  EdgeKind `json:"kind"`
	From  string   `json:"from"`
	To    string   `json:"to"`
	Label string   `json:"label,omitempty"`
	// Taken marks the path of a run, which pictures draw bold.
	Taken bool     `json:"taken,omitempty"`
	on    outcomes // of the source; 0 if the edge is not tied to any
}

// isFailure reports whether the edge is about a failure or rejection.
func (k EdgeKind) isFailure() bool {
	return k == EdgeRejected || k == EdgeFailed || k == EdgeFallback
}

// isControl reports whether a run can follow the edge.
func (k EdgeKind) isControl() bool { return k != EdgeProduces && k != EdgeData }
