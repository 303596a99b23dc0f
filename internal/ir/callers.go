package ir

// Caller is a step that calls a program.
type Caller struct {
	Program *Program
	Step    *Step
}

// Callers are derived from a program: they do not distinguish programs.
type Callers []Caller

// Equal returns true.
func (Callers) Equal(Callers) bool { return true }

// Link records the callers of all programs below p. Linking a program again changes nothing.
func (p *Program) Link() {
	for i := range p.Children {
		if len(p.Children[i].Callers) > 0 {
			return
		}
	}
	for s := range p.Steps() {
		if call, ok := s.Action.(Call); ok && call.Child >= 0 && call.Child < len(p.Children) {
			child := &p.Children[call.Child]
			child.Callers = append(child.Callers, Caller{p, s})
		}
	}
	for i := range p.Children {
		p.Children[i].Link()
	}
}
