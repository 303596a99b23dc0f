package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-run/espalier/internal/journal"
)

// Error codes that expect raises, and codes of PostgreSQL.
const (
	codeFenced     = "ES001" // this process may not append any more
	codeStale      = "ES002" // the journal is not what the group was built for
	codeUnique     = "23505"
	codeForeignKey = "23503"
	codeTooMany    = "53300" // connections
)

// code returns the SQLSTATE of an error of the server, or "" for other errors.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// isStale reports whether a statement failed because rows have changed since
// they were looked up.
func isStale(err error) bool {
	switch code(err) {
	case codeStale, codeUnique, codeForeignKey:
		return true
	}
	return false
}

// isRetryable reports whether the same statement can succeed a little later:
// the connection is lost, the server restarts, or transactions collided.
func isRetryable(err error) bool {
	// The codes of the last case are serialization_failure, deadlock_detected, lock_not_available and
	// idle_in_transaction_session_timeout.
	switch c := code(err); {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case c == "":
		return isConnectionLoss(err)
	default: // collisions, lock timeouts, and transactions that the server ended because this process was paused
		return isOutage(c) || c == "40001" || c == "40P01" || c == "55P03" || c == "25P03"
	}
}

// isOutage reports whether the server refuses to work for now.
func isOutage(code string) bool {
	if code == "57014" { // query_canceled: by an administrator or a timeout
		return false
	}
	// Connection exceptions; operator intervention.
	return code == codeTooMany || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57")
}

// isConnectionLoss reports whether an error, which is not one of the server,
// comes from the connection to it.
func isConnectionLoss(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, system := errors.AsType[syscall.Errno](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return network || system || connecting || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

// explain adds the journal's meaning to an error.
func explain(err error) error {
	var meaning error
	// 53100 is disk_full, 25006 read_only_sql_transaction, 42501 insufficient_privilege; class XX is for internal
	// errors, which include damaged data.
	switch c := code(err); {
	case err == nil:
		return nil
	case c == "53100":
		meaning = journal.ErrFull
	case c == "25006", c == "42501":
		meaning = journal.ErrReadOnly
	case strings.HasPrefix(c, "XX"):
		meaning = journal.ErrCorrupt
	case c == "" && isRetryable(err), isOutage(c):
		return &journal.UnavailableError{What: "the database cannot be reached", Err: err}
	case isRetryable(err):
		meaning = journal.ErrUnavailable
	default:
		return fmt.Errorf("the journal: %w", err)
	}
	return fmt.Errorf("%w: %w", meaning, err)
}

// unsuitable adds journal.ErrUnsuitable to an error of Open, unless it has another
// meaning for the journal.
func unsuitable(err error) error {
	if err == nil || errors.Is(err, journal.ErrUnavailable) || errors.Is(err, journal.ErrFull) ||
		errors.Is(err, context.Canceled) || errors.Is(err, errNotURL) {
		return err
	}
	if _, newer := errors.AsType[*journal.NewerError](err); newer {
		return err
	}
	return unsuitableError{err}
}

// unsuitableError has the text of another error.
type unsuitableError struct{ error }

func (e unsuitableError) Unwrap() []error { return []error{e.error, journal.ErrUnsuitable} }
