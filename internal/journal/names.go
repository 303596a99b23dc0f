package journal

// EveryFact returns a zero fact of each type.
func EveryFact() []Fact {
	return []Fact{
		RunStarted{},
		RunFinished{},
		FrameOpened{},
		FrameClosed{},
		StepEntered{},
		StepLeft{},
		Routed{},
		TaskStarted{},
		TaskEnded{},
		TaskLost{},
		TaskNoted{},
		Reserved{},
		BudgetWait{},
		BudgetRefused{},
		SignalReceived{},
		BudgetRaised{},
		RetrySet{},
		TimerFired{},
		GateOpened{},
		GateApproved{},
		GateDecided{},
		InputRefused{},
		CancelRequested{},
		CleanupBegun{},
		Paused{},
		Continued{},
		StateEdited{},
		Rewound{},
		Claimed{},
		ClockJumped{},
	}
}

func (RunStarted) factName() string      { return "RunStarted" }
func (RunFinished) factName() string     { return "RunFinished" }
func (FrameOpened) factName() string     { return "FrameOpened" }
func (FrameClosed) factName() string     { return "FrameClosed" }
func (StepEntered) factName() string     { return "StepEntered" }
func (StepLeft) factName() string        { return "StepLeft" }
func (Routed) factName() string          { return "Routed" }
func (TaskStarted) factName() string     { return "TaskStarted" }
func (TaskEnded) factName() string       { return "TaskEnded" }
func (TaskLost) factName() string        { return "TaskLost" }
func (TaskNoted) factName() string       { return "TaskNoted" }
func (Reserved) factName() string        { return "Reserved" }
func (BudgetWait) factName() string      { return "BudgetWait" }
func (BudgetRefused) factName() string   { return "BudgetRefused" }
func (SignalReceived) factName() string  { return "Signalled" }
func (BudgetRaised) factName() string    { return "BudgetRaised" }
func (RetrySet) factName() string        { return "RetrySet" }
func (TimerFired) factName() string      { return "TimerFired" }
func (GateOpened) factName() string      { return "GateOpened" }
func (GateApproved) factName() string    { return "GateApproved" }
func (GateDecided) factName() string     { return "GateDecided" }
func (InputRefused) factName() string    { return "InputRefused" }
func (CancelRequested) factName() string { return "CancelRequested" }
func (CleanupBegun) factName() string    { return "CleanupBegun" }
func (Paused) factName() string          { return "Paused" }
func (Continued) factName() string       { return "Continued" }
func (StateEdited) factName() string     { return "StateEdited" }
func (Rewound) factName() string         { return "Rewound" }
func (Claimed) factName() string         { return "Claimed" }
func (ClockJumped) factName() string     { return "ClockJumped" }
