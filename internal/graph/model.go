package graph

// Graph is a picture as data: what there is to draw, not where.
type Graph struct {
	Name        string  `json:"name"`
	Format      string  `json:"format,omitempty"`
	Description string  `json:"description,omitempty"`
	Nodes       []Node  `json:"nodes"`
	Groups      []Group `json:"groups,omitempty"`
	Edges       []Edge  `json:"edges"`
}

// NodeKind is what a node stands for.
type NodeKind string

// The kinds of nodes.
const (
	NodeTrigger  NodeKind = "trigger"  // a way in which runs begin
	NodeStart    NodeKind = "start"    // the beginning, when the file states no trigger
	NodeStep     NodeKind = "step"     // a step
	NodeWait     NodeKind = "wait"     // a step that only waits for an event
	NodeEnd      NodeKind = "end"      // an End step, or the implied end of the body
	NodeFail     NodeKind = "fail"     // where an edge stops the run or the block as failed
	NodeExit     NodeKind = "exit"     // where an edge leaves its group
	NodeArtifact NodeKind = "artifact" // a file that a step produces
)

// Node is one thing in the picture that is not a frame.
type Node struct {
	ID   string   `json:"id"`             // unique, safe as an XML id and in a link
	Kind NodeKind `json:"kind"`           //
	Tone Tone     `json:"tone"`           // decides the colour
	Icon Icon     `json:"icon,omitempty"` // a small symbol
	Step string   `json:"step,omitempty"` // path of the step: "extract.reader_1"
	// Group is the frame that the node lies in and Lane the branch of it.
	Group  string   `json:"group,omitempty"`
	Lane   int      `json:"lane,omitempty"`
	Order  int      `json:"order"`            // position in the document, frames counted as well
	Label  string   `json:"label,omitempty"`  // the format's word for what it is
	Detail string   `json:"detail,omitempty"` // who or what does it: an agent, a tool, a child
	Title  string   `json:"title,omitempty"`
	Text   string   `json:"text,omitempty"` // the description
	Notes  []Note   `json:"notes,omitempty"`
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
	Off    bool     `json:"off,omitempty"` // a trigger that is switched off
	// State is how far a run has come here; pictures show it when it is set.
	State string `json:"state,omitempty"`
}

// NoteKind says what a note is about.
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

// Note is one short line about a step, under its description.
type Note struct {
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// GroupKind is what a frame stands for.
type GroupKind string

// The kinds of frames.
const (
	GroupBundle GroupKind = "bundle" // branches side by side
	GroupLoop   GroupKind = "loop"   // one block again and again
)

// Group is a frame around other nodes: a bundle or a loop. It is a step too,
// so edges may begin and end at it.
type Group struct {
	ID     string    `json:"id"`
	Kind   GroupKind `json:"kind"`
	Tone   Tone      `json:"tone"`
	Icon   Icon      `json:"icon,omitempty"`
	Step   string    `json:"step"`
	Group  string    `json:"group,omitempty"` // the frame it lies in itself
	Lane   int       `json:"lane,omitempty"`
	Order  int       `json:"order"`
	Label  string    `json:"label,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Title  string    `json:"title"`
	Text   string    `json:"text,omitempty"`
	Notes  []Note    `json:"notes,omitempty"`
	Footer string    `json:"footer,omitempty"` // how the branches come together
	// Lanes are the names of the branches; a lane of one step needs none.
	Lanes  []string `json:"lanes,omitempty"`
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
	State  string   `json:"state,omitempty"`
}

// EdgeKind is what an edge means.
type EdgeKind string

// The kinds of edges.
const (
	EdgeFlow     EdgeKind = "flow"     // on to the next step
	EdgeBranch   EdgeKind = "branch"   // chosen by a decision or a condition
	EdgeJump     EdgeKind = "jump"     // a jump somebody wrote
	EdgeSkipped  EdgeKind = "skipped"  // only when the step was skipped
	EdgeRejected EdgeKind = "rejected" // a gate's "no"
	EdgeFailed   EdgeKind = "failed"   // on an error
	EdgeFallback EdgeKind = "fallback" // to the step that stands in
	EdgeProduces EdgeKind = "produces" // from a step to its artifact
	EdgeData     EdgeKind = "data"     // from a writer to a reader of a key
)

// Edge leads from one node or group to another.
type Edge struct {
	ID    string   `json:"id"`
	Kind  EdgeKind `json:"kind"`
	From  string   `json:"from"`
	To    string   `json:"to"`
	Label string   `json:"label,omitempty"`
	// Taken edges are the path that a run went; pictures draw them bolder.
	Taken bool `json:"taken,omitempty"`
}

// wrong reports whether the edge is about something that went wrong.
func (k EdgeKind) wrong() bool {
	return k == EdgeRejected || k == EdgeFailed || k == EdgeFallback
}

// control reports whether the edge is a way that a run can go.
func (k EdgeKind) control() bool { return k != EdgeProduces && k != EdgeData }
