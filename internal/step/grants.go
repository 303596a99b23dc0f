package step

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Grants returns the tools that an external agent may use by itself in a step: those that the router would
// allow. problem explains why the agent cannot be restricted to them. Grants is called before a run starts, and
// again when the step runs.
func Grants(info *provider.AgentInfo, who tool.Caller) (grants []provider.Grant, problem string) {
	if foreign := tool.Foreign(who, info.Tools); len(foreign) > 0 {
		name := foreign[0]
		if why := info.Denied[name]; why != "" {
			return nil, fmt.Sprintf("the program %s may not use the tool %q: %s", info.Name, name, why)
		}
		return nil, fmt.Sprintf("the program %s has no tool %q: it works with its own tools", info.Name, name)
	}
	for _, g := range tool.Granted(who, info.Tools) {
		grants = append(grants, provider.Grant(g))
	}
	denied := xslices.Map(who.Program.Tools.Deny, func(n ir.Name) string { return ir.ToolName(n.Name) })
	if info.Problem != nil {
		problem = info.Problem(grants, denied)
	}
	return grants, problem
}
