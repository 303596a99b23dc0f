package otel

// name identifies an attribute or a metric in the table below.
type name int

// Attributes of the Agent Flow specification, section 10.1.
const (
	workflowName name = iota
	workflowVersion
	runID
	stepID
	stepType
	agentID
	agentRole
	tokensInput
	tokensOutput
	budgetTokens
	budgetSteps
	reasonCode

	// Attributes of the conventions for generative AI.
	operation
	provider
	requestModel
	responseModel
	finishReasons
	requestMaxTokens
	requestTemperature
	responseID
	outputType
	serverAddress
	inputTokens
	outputTokens
	cacheReadTokens
	cacheWriteTokens
	tokenType
	genAIAgent
	genAIWorkflow
	toolName
	toolType
	toolCallID
	systemInstructions
	inputMessages
	outputMessages
	toolArguments
	toolResult
	errorType

	// Attributes that neither of them has.
	outcome
	format
	parentRun
	iteration
	attempt
	attempts
	childRun
	gateKind
	gateMethod
	cost
	offline
	reportedBy
	standsInFor
	retryDelay
	budgetName

	// Metrics.
	tokenUsage
	inputTokensUsed
	outputTokensUsed
	cacheReadTokensUsed
	cacheWriteTokensUsed
	callDuration
	workflowDuration
	agentDuration
	toolDuration
	stepDuration
	runCount
	stepCount
	costTotal

	names // their number
)

// Conventions selects a version of the conventions for generative AI. They are in development, and names change.
type Conventions int

const (
	// Published is the last version that was published with the other conventions of OpenTelemetry (1.41).
	Published Conventions = iota
	// Latest is that of the repository in which they are developed now. It is selected by
	// OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental.
	Latest
)

// absent marks what a version does not have.
const absent = "-"

// called has the names of each version, in every signal. Latest is empty where the name has not changed.
var called = [names]struct{ published, latest string }{
	workflowName:    {published: "agent_flow.workflow.name"},
	workflowVersion: {published: "agent_flow.workflow.version"},
	runID:           {published: "agent_flow.run.id"},
	stepID:          {published: "agent_flow.step.id"},
	stepType:        {published: "agent_flow.step.type"},
	agentID:         {published: "agent_flow.agent.id"},
	agentRole:       {published: "agent_flow.agent.role"},
	tokensInput:     {published: "agent_flow.tokens.input"},
	tokensOutput:    {published: "agent_flow.tokens.output"},
	budgetTokens:    {published: "agent_flow.budget.tokens.remaining"},
	budgetSteps:     {published: "agent_flow.budget.steps.remaining"},
	reasonCode:      {published: "agent_flow.reason_code"},

	operation:          {published: "gen_ai.operation.name"},
	provider:           {published: "gen_ai.provider.name"},
	requestModel:       {published: "gen_ai.request.model"},
	responseModel:      {published: "gen_ai.response.model"},
	finishReasons:      {published: "gen_ai.response.finish_reasons"},
	requestMaxTokens:   {published: "gen_ai.request.max_tokens"},
	requestTemperature: {published: "gen_ai.request.temperature"},
	responseID:         {published: "gen_ai.response.id"},
	outputType:         {published: "gen_ai.output.type"},
	serverAddress:      {published: "server.address"},
	inputTokens:        {published: "gen_ai.usage.input_tokens"},
	outputTokens:       {published: "gen_ai.usage.output_tokens"},
	cacheReadTokens:    {published: "gen_ai.usage.cache_read.input_tokens"},
	cacheWriteTokens: {
		published: "gen_ai.usage.cache_creation.input_tokens",
		latest:    "gen_ai.usage.cache_write.input_tokens",
	},
	tokenType:          {published: "gen_ai.token.type", latest: absent},
	genAIAgent:         {published: "gen_ai.agent.name"},
	genAIWorkflow:      {published: "gen_ai.workflow.name"},
	toolName:           {published: "gen_ai.tool.name"},
	toolType:           {published: "gen_ai.tool.type"},
	toolCallID:         {published: "gen_ai.tool.call.id"},
	systemInstructions: {published: "gen_ai.system_instructions"},
	inputMessages:      {published: "gen_ai.input.messages"},
	outputMessages:     {published: "gen_ai.output.messages"},
	toolArguments:      {published: "gen_ai.tool.call.arguments"},
	toolResult:         {published: "gen_ai.tool.call.result"},
	errorType:          {published: "error.type"},

	outcome:     {published: "espalier.outcome"},
	format:      {published: "espalier.workflow.format"},
	parentRun:   {published: "espalier.run.parent_id"},
	iteration:   {published: "espalier.step.iteration"},
	attempt:     {published: "espalier.attempt"},
	attempts:    {published: "espalier.step.attempts"},
	childRun:    {published: "espalier.step.child_run_id"},
	gateKind:    {published: "espalier.gate.kind"},
	gateMethod:  {published: "espalier.gate.method"},
	cost:        {published: "espalier.cost.usd"},
	offline:     {published: "espalier.offline"},
	reportedBy:  {published: "espalier.tool.reported_by"},
	standsInFor: {published: "espalier.step.fallback_for"},
	retryDelay:  {published: "espalier.retry.delay"},
	budgetName:  {published: "espalier.budget"},

	tokenUsage:           {published: "gen_ai.client.token.usage", latest: absent},
	inputTokensUsed:      {published: absent, latest: "gen_ai.client.inference.usage.input_tokens"},
	outputTokensUsed:     {published: absent, latest: "gen_ai.client.inference.usage.output_tokens"},
	cacheReadTokensUsed:  {published: absent, latest: "gen_ai.client.inference.usage.cache_read.input_tokens"},
	cacheWriteTokensUsed: {published: absent, latest: "gen_ai.client.inference.usage.cache_write.input_tokens"},
	callDuration:         {published: "gen_ai.client.operation.duration", latest: "gen_ai.client.inference.duration"},
	workflowDuration:     {published: "gen_ai.invoke_workflow.duration"},
	agentDuration:        {published: "gen_ai.invoke_agent.duration"},
	toolDuration:         {published: "gen_ai.execute_tool.duration"},
	stepDuration:         {published: "espalier.step.duration"},
	runCount:             {published: "espalier.runs"},
	stepCount:            {published: "espalier.steps"},
	costTotal:            {published: "espalier.cost"},
}

// of returns the name of an attribute or metric; empty when this version has none.
func (c Conventions) of(n name) string {
	out := called[n].published
	if c == Latest && called[n].latest != "" {
		out = called[n].latest
	}
	if out == absent {
		return ""
	}
	return out
}

// Values of the attribute operation; the names of spans start with them.
const (
	invokeWorkflow = "invoke_workflow"
	invokeAgent    = "invoke_agent"
	executeTool    = "execute_tool"
	chat           = "chat"
)

// providers maps Espalier's names of providers to those of the conventions.
var providers = map[string]string{
	"gemini": "gcp.gemini", "azure": "azure.ai.openai", "bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai",
	"mistral": "mistral_ai", "xai": "x_ai", "moonshot": "moonshot_ai",
}
