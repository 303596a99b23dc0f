package identity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// Kind is the kind of an identity.
type Kind string

// The kinds of identities.
const (
	// Owner is the person who can read the project's own token, which only the
	// owner of the state folder can.
	Owner Kind = "owner"
	// User is a person with an entry in the users file.
	User Kind = "user"
	// Service is a program. Without an approver role it never decides a gate.
	Service Kind = "service"
)

// Method is how an identity was established.
type Method string

// The methods.
const (
	ByProjectToken Method = "project-token"
	ByToken        Method = "token"
	// ByOIDC is a sign-in at an OpenID Connect provider.
	ByOIDC Method = "oidc"
)

// Identity is an authenticated person or program.
type Identity struct {
	Name   string `json:"name"`
	Kind   Kind   `json:"kind"`
	Method Method `json:"method"`
	Roles  []Role `json:"roles"`
	// Token is the id of the token, if one was presented. It is not the token.
	Token string `json:"token,omitempty"`
	// Session is set when a browser session presents the identity.
	Session bool `json:"session,omitempty"`
}

// Role grants permissions. A role of the form "approver:NAME" is an approver for
// gates that ask for NAME.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Approver Role = "approver"
	Admin    Role = "admin"
	// Sender delivers events and does nothing else.
	Sender Role = "sender"
	// everything is the role of the owner: admin, and approver for every gate.
	everything Role = "*"
)

const (
	// approverFor begins a role that approves gates with a named role.
	approverFor = "approver:"
	// starterOf begins a role that starts runs of one workflow, if the workflow
	// declares that it can be started over the API, and does nothing else.
	starterOf = "starter:"
)

var gateRole = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ParseRole returns the role that a text names.
func ParseRole(text string) (Role, error) {
	for prefix, what := range map[string]string{approverFor: "gate role", starterOf: "workflow"} {
		if name, ok := strings.CutPrefix(text, prefix); ok {
			if !gateRole().MatchString(name) {
				return "", fmt.Errorf("the role %q names no %s: write %sNAME", text, what, prefix)
			}
			return Role(text), nil
		}
	}
	switch r := Role(text); r {
	case Viewer, Operator, Approver, Admin, Sender:
		return r, nil
	}
	return "", fmt.Errorf("unknown role %q: use viewer, operator, approver, approver:NAME, sender, "+
		"starter:WORKFLOW or admin", text)
}

// Permission is something that a request needs.
type Permission string

// The permissions.
const (
	// Read covers workflows, runs and records.
	Read Permission = "read"
	// Start covers starting runs and simulations, and firing triggers.
	Start Permission = "start"
	// Operate covers pausing, resuming, canceling, editing and removing runs,
	// raising budgets, sending signals, and resolving unknown outcomes.
	Operate Permission = "operate"
	// Decide covers gates and tool approvals; see [Identity.ApproverRoles] for
	// gates that name roles.
	Decide Permission = "decide"
	// Send covers delivering events to workflows and runs.
	Send Permission = "send"
	// Manage covers users, triggers and the server itself.
	Manage Permission = "manage"
	// Any is what everyone with valid credentials may do.
	Any Permission = "any"
)

var grants = map[Role][]Permission{
	Viewer:     {Read},
	Operator:   {Read, Start, Operate, Send},
	Sender:     {Send},
	Approver:   {Read, Decide},
	Admin:      {Read, Start, Operate, Decide, Send, Manage},
	everything: {Read, Start, Operate, Decide, Send, Manage},
}

// May reports whether the identity has a permission. A program decides only if its entry has an approver role: being an
// administrator is not enough for it.
func (id Identity) May(p Permission) bool {
	switch {
	case p == Any:
		return true
	case p == Decide && id.Kind == Service && !slices.ContainsFunc(id.Roles, Role.approves):
		return false
	}
	return slices.ContainsFunc(id.Roles, func(r Role) bool {
		if strings.HasPrefix(string(r), approverFor) {
			r = Approver
		}
		if strings.HasPrefix(string(r), starterOf) {
			return p == Start
		}
		return slices.Contains(grants[r], p)
	})
}

// MayStart reports whether the identity may start runs of any workflow, and
// whether it may start runs of this one over the API.
func (id Identity) MayStart(workflow string) (any, this bool) {
	for _, r := range id.Roles {
		any = any || slices.Contains(grants[r], Start)
		this = this || r == Role(starterOf+workflow)
	}
	return any, any || this
}

// ApproverRoles returns the roles under which the identity decides gates that
// name approvers: NAME for each approver:NAME, "approver" if it may decide gates
// that name no role, and "*" for the owner.
func (id Identity) ApproverRoles() []string {
	var out []string
	for _, r := range id.Roles {
		if name, ok := strings.CutPrefix(string(r), approverFor); ok {
			out = append(out, name)
		}
		if r == everything {
			out = append(out, string(everything))
		}
	}
	if id.May(Decide) {
		out = append(out, string(Approver))
	}
	return out
}

func (r Role) approves() bool { return r == Approver || strings.HasPrefix(string(r), approverFor) }
