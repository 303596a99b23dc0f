package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
)

// spendingPrefix starts the keys of the registers that count spending:
// spending/DAY/LIMIT/SHARE.
const spendingPrefix = "spending/"

// spendingKept is how many days the registers are kept.
const spendingKept = 7

// dayFormat is the form of a day in keys.
const dayFormat = time.DateOnly

// spent is the content of a register. It includes reservations: the worst case
// of a call is added before the call, and corrected after it. What a process
// reserves and does not correct because it is killed stays, as the provider may
// bill it.
type spent struct {
	MicroDollars int64 `json:"micro_dollars"`
}

// spending enforces limits on what the models of all runs may cost in a day (UTC), over all processes that share a
// store. Registers are changed by compare-and-swap, so two processes cannot both get the last of a limit.
type spending struct {
	registers journal.Registers
	limits    []config.Named[config.Spending]
	now       func() time.Time
}

// newSpending returns what enforces the limits of a project; nil if it has none.
func newSpending(store journal.Registers, c *config.Config, now func() time.Time) *spending {
	if len(c.Spending) == 0 {
		return nil
	}
	if now == nil {
		now = time.Now
	}
	return &spending{store, c.Spending, now}
}

// Spending returns the spending limits and what has been spent today.
func (r *Runtime) Spending(ctx context.Context) ([]SpendingStatus, error) {
	if r.spends == nil {
		return nil, nil
	}
	return r.spends.status(ctx)
}

// CountsUsers reports whether spending limits depend on who starts a run.
func CountsUsers(c *config.Config) bool {
	return slices.ContainsFunc(c.Spending, func(l config.Named[config.Spending]) bool {
		return l.Is.Each == config.EachUser || l.Is.User.Value != ""
	})
}

// CountsTokens reports whether spending limits depend on the token that starts a run.
func CountsTokens(c *config.Config) bool {
	return slices.ContainsFunc(c.Spending, func(l config.Named[config.Spending]) bool {
		return l.Is.Each == config.EachToken || l.Is.Token.Value != ""
	})
}

// spender is what a call counts for.
type spender struct{ workflow, user, token string }

// matches reports whether a limit applies to a spender. A limit for each token applies to runs that a token started.
func (s spender) matches(l *config.Spending) bool {
	return (l.Workflow.Value == "" || l.Workflow.Value == s.workflow) &&
		(l.User.Value == "" || l.User.Value == s.user) &&
		(l.Token.Value == "" || l.Token.Value == s.token) && (l.Each != config.EachToken || s.token != "")
}

// share is a part of spending that has a limit of its own.
type share struct {
	key   string
	limit int64
	words string
}

// shares returns the limits that apply to a call.
func (s *spending) shares(by spender) []share {
	day := s.now().UTC().Format(dayFormat)
	var out []share
	for _, l := range s.limits {
		if !by.matches(&l.Is) {
			continue
		}
		one := share{limit: l.Is.MicroDollars, words: "the spending limit " + l.Name.Value}
		of := ""
		switch l.Is.Each {
		case config.EachWorkflow:
			of = by.workflow
		case config.EachUser:
			of = by.user
		case config.EachToken:
			of = by.token
		}
		if of != "" {
			one.words += " for " + of
		}
		one.key = spendingPrefix + day + "/" + l.Name.Value + "/" + of
		out = append(out, one)
	}
	return out
}

// add adds an amount to a share. It returns false and changes nothing if the share would exceed the limit; a limit
// below zero is none. The first amount of a day also removes the registers of old days.
func (s *spending) add(ctx context.Context, key string, amount, limit int64) (bool, error) {
	for {
		r, err := s.registers.Load(ctx, key)
		if err != nil {
			return false, err
		}
		var now spent
		if err := r.Decode(&now); err != nil {
			return false, err
		}
		if limit >= 0 && now.MicroDollars+amount > limit {
			return false, nil
		}
		fresh := r.Version == 0
		// A correction never makes a share negative.
		now.MicroDollars = max(0, now.MicroDollars+amount)
		_, err = journal.SaveJSON(ctx, s.registers, r, now)
		if errors.Is(err, journal.ErrConflict) {
			continue // another call was counted
		}
		if err == nil && fresh {
			err = s.forget(ctx)
		}
		return err == nil, err
	}
}

// forget removes the registers of old days.
func (s *spending) forget(ctx context.Context) error {
	oldest := spendingPrefix + s.now().UTC().AddDate(0, 0, -spendingKept).Format(dayFormat)
	return journal.RemoveRegisters(ctx, s.registers, spendingPrefix, func(r *journal.Register) (bool, error) {
		return r.Key < oldest, nil
	})
}

// reserve reserves an amount in all shares, or returns the share that is exhausted; what was reserved in those before
// it is given back. The shares are in the order of the configuration in every process.
func (s *spending) reserve(ctx context.Context, shares []share, amount int64) (exhausted *share, err error) {
	for i := range shares {
		ok, err := s.add(ctx, shares[i].key, amount, shares[i].limit)
		if err == nil && ok {
			continue
		}
		return &shares[i], errors.Join(err, s.correct(ctx, shares[:i], -amount))
	}
	return nil, nil
}

// correct adds the difference between the cost of a call and its reservation. It is not canceled with the call: money
// that was reserved and not spent would count until the end of the day. It applies to the shares of the day on which
// the call began.
func (s *spending) correct(ctx context.Context, shares []share, difference int64) error {
	if difference == 0 {
		return nil
	}
	var errs []error
	for i := range shares {
		_, err := s.add(context.WithoutCancel(ctx), shares[i].key, difference, -1)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// SpendingStatus is a spending limit with what has been spent today.
type SpendingStatus struct {
	Name         string // of the limit
	Of           string // the workflow, the user or the token that it is for, if there is one for each
	MicroDollars int64  // spent and reserved
	Limit        int64
}

// status returns what has been spent today.
func (s *spending) status(ctx context.Context) ([]SpendingStatus, error) {
	day := spendingPrefix + s.now().UTC().Format(dayFormat) + "/"
	all, err := s.registers.List(ctx, day)
	if err != nil {
		return nil, err
	}
	var out []SpendingStatus
	for _, l := range s.limits {
		one := SpendingStatus{Name: l.Name.Value, Limit: l.Is.MicroDollars}
		found := false
		for _, r := range all {
			of, ok := strings.CutPrefix(r.Key, day+l.Name.Value+"/")
			var now spent
			if !ok || json.Unmarshal(r.Data, &now) != nil {
				continue
			}
			one.Of, one.MicroDollars, found = of, now.MicroDollars, true
			out = append(out, one)
		}
		if !found && l.Is.Each == "" {
			out = append(out, one)
		}
	}
	return out, nil
}

// spendingModel is a model whose calls count toward the spending limits. by is who the calls count for.
type spendingModel struct {
	router
	*spending
	price func(model string) (price.Price, bool)
	by    spender
}

// minWait is the shortest wait for the next day. provider.Retry waits up to 15 minutes by itself, during which the task
// keeps running; here the task has to end and its run has to sleep.
const minWait = 16 * time.Minute

// Generate reserves the worst case of a call, makes the call, and corrects the reservation. A call that no limit allows
// today fails, and the task waits for tomorrow.
//
// Each attempt of the call has a reservation of its own, because each can be billed: an attempt that fails and will be
// repeated is corrected at once (Retried), and the next one reserves again (NextAttempt). A stream that its consumer
// leaves early keeps the reservation.
func (m spendingModel) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		shares := m.shares(m.by)
		if len(shares) == 0 {
			m.router.Generate(ctx, req)(yield)
			return
		}
		p, known := m.price(req.Model)
		if !known {
			yield(provider.Chunk{}, provider.Errorf(ir.ClassAPI,
				"%s needs the price of the model %q: add it to prices in espalier.yaml", shares[0].words, req.Model))
			return
		}
		worst := p.Worst(m.MostTokens(&req), int64(req.MaxTokens))
		if err := m.claim(ctx, shares, worst); err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		cost := int64(0)
		for c, err := range m.router.Generate(ctx, req) {
			switch {
			case err != nil:
				cost = costOfFailure(p, err, worst)
			case c.Retried != nil:
				cost = costOfFailure(p, c.Retried.Error, worst)
			case c.NextAttempt:
				if refused := m.claim(ctx, shares, worst); refused != nil {
					yield(provider.Chunk{}, refused)
					return
				}
			case c.Reply != nil:
				cost = costOf(p, c.Reply)
			}
			if c.Retried != nil || err != nil || c.Reply != nil {
				failure := m.correct(ctx, shares, cost-worst)
				cost = 0
				if err == nil && failure != nil {
					err = failure
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// costOfFailure returns what a failed call costs at most.
func costOfFailure(p price.Price, err error, worst int64) int64 {
	switch partial, whole := provider.Charge(err); {
	case partial != nil:
		return costOf(p, partial)
	case whole:
		return worst
	}
	return 0
}

// costOf returns what a reply costs: what the agent that gave it reports, or what its tokens cost.
func costOf(p price.Price, reply *provider.Reply) int64 {
	if w := reply.AgentResult; w != nil && w.MicroDollars != nil {
		return *w.MicroDollars
	}
	return p.Cost(price.Tokens(reply.Usage))
}

// claim reserves the worst case of a call. If a limit is reached, the error is a rate limit until the next day, on
// which the run waits; a call that is more expensive than the limit itself fails for good.
func (m spendingModel) claim(ctx context.Context, shares []share, worst int64) error {
	full, err := m.reserve(ctx, shares, worst)
	if err != nil || full == nil {
		return err
	}
	now := m.now().UTC()
	tomorrow := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
	message := fmt.Sprintf("%s (%s per day) is reached", full.words, price.Dollars(full.limit))
	if worst > full.limit {
		return provider.Errorf(ir.ClassAPI, "one call can cost %s, and %s allows %s per day",
			price.Dollars(worst), full.words, price.Dollars(full.limit))
	}
	return &provider.Error{Class: ir.ClassRateLimit, RetryAfter: max(minWait, tomorrow.Sub(now)), Message: message}
}
