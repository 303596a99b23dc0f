package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/xslices"
)

func (a *invocation) userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Manage the users of the server and their tokens",
		Long: `Manage who may use the server of the project. A user has roles:

  viewer          sees workflows, runs and records
  operator        also starts, pauses, resumes, cancels and edits runs
  approver        decides gates and tool approvals
  approver:NAME   decides gates that ask for the role NAME
  sender          delivers events, and nothing else
  starter:NAME    starts runs of the workflow NAME, if that says "api: true"
  admin           all of these, and manages the server

Tokens are shown once; only their hashes are stored, in .espalier/users.json.`,
	}
	cmd.AddCommand(a.userAdd(), a.userList(), a.userToken(),
		a.userChange("revoke NAME TOKEN-ID", "Revoke a token of a user", 2, 2,
			"the name of the user and the ID of the token",
			func(u *identity.Users, args []string) error { return u.RevokeToken(args[0], args[1]) }),
		a.userChange("roles NAME ROLE…", "Replace the roles of a user", 2, 100, "the name of the user and its roles",
			func(u *identity.Users, args []string) error {
				roles, err := parseRoles(args[1:])
				if err != nil {
					return err
				}
				return u.SetRoles(args[0], roles)
			}),
		a.userChange("logout NAME", "End all browser sessions of a user", 1, 1, "the name of the user",
			func(u *identity.Users, args []string) error { return u.EndSessions(args[0]) }),
		a.userChange("remove NAME", "Remove a user; tokens and sessions end at once", 1, 1, "the name of the user",
			func(u *identity.Users, args []string) error { return u.Remove(args[0]) }))
	return cmd
}

// users returns the users file of the project.
func (a *invocation) users() (*identity.Users, error) {
	state, err := a.app(recordOnly).StateDir(context.Background())
	if err != nil {
		return nil, err
	}
	return identity.NewUsers(state), nil
}

func parseRoles(texts []string) (roles []identity.Role, err error) {
	for _, text := range texts {
		role, err := identity.ParseRole(text)
		if err != nil {
			return nil, usage("", "%v", err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

// parseLifetime reads a duration, with days as a unit.
func parseLifetime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	var days int
	if n, err := fmt.Sscanf(text, "%dd", &days); err == nil && n == 1 && fmt.Sprintf("%dd", days) == text && days > 0 {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usage("Write it as 90d or 12h.", "invalid token lifetime %q", text)
	}
	return d, nil
}

// userError returns what a person can do about an error of the users file.
func userError(name string, err error) error {
	switch {
	case errors.Is(err, identity.ErrUnknownUser):
		return usage("\"espalier user list\" shows the users.", "unknown user %q", name)
	case errors.Is(err, identity.ErrUserExists):
		return usage("\"espalier user token\" adds a token; \"espalier user roles\" changes the roles.",
			"the user %q already exists", name)
	case errors.Is(err, identity.ErrUnknownToken):
		return usage("\"espalier user list\" shows the IDs of the tokens.", "%q has no token with this ID", name)
	}
	return err
}

// newToken prints a new token of a user, which cannot be shown again.
func (a *invocation) newToken(
	name, expires string, add func(u *identity.Users, lifetime time.Duration) (token string, err error),
) error {
	lifetime, err := parseLifetime(expires)
	if err != nil {
		return err
	}
	users, err := a.users()
	if err != nil {
		return err
	}
	token, err := add(users, lifetime)
	if err != nil {
		return userError(name, err)
	}
	return a.print(map[string]string{"user": name, "token": token}, func() {
		fmt.Fprintln(a.stdout, token)
		a.note("This is the token of %s. It is not stored and cannot be shown again.", name)
	})
}

// userAdd adds an account and prints its first token. --expires applies to the token, not to the account.
func (a *invocation) userAdd() *cobra.Command {
	var roles []string
	var service bool
	var expires string
	cmd := a.jsonFlag(&cobra.Command{
		Use:               "add NAME --role ROLE… [--service] [--expires 90d]",
		Short:             "Add a user and print a token",
		Args:              takes(1, 1, "the name of the user"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			parsed, err := parseRoles(roles)
			if err != nil {
				return err
			}
			if len(parsed) == 0 {
				return usage("Use --role viewer, operator, approver, approver:NAME, sender or admin.",
					"the user needs a role")
			}
			return a.newToken(args[0], expires, func(u *identity.Users, lifetime time.Duration) (string, error) {
				return u.Add(args[0], service, parsed, lifetime)
			})
		},
	})
	cmd.Flags().StringSliceVar(&roles, "role", nil, "a `ROLE` of the user; may be repeated")
	cmd.Flags().BoolVar(&service, "service", false, "the user is a program, not a person")
	cmd.Flags().StringVar(&expires, "expires", "", "how long the token is valid, such as `90d`")
	return cmd
}

func (a *invocation) userToken() *cobra.Command {
	var note, expires string
	cmd := a.jsonFlag(&cobra.Command{
		Use:               "token NAME [--note TEXT] [--expires 90d]",
		Short:             "Add a token to a user and print it",
		Args:              takes(1, 1, "the name of the user"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.newToken(args[0], expires, func(u *identity.Users, lifetime time.Duration) (string, error) {
				return u.AddToken(args[0], note, lifetime)
			})
		},
	})
	cmd.Flags().StringVar(&note, "note", "", "what the token is for")
	cmd.Flags().StringVar(&expires, "expires", "", "how long the token is valid, such as `90d`")
	return cmd
}

// userList lists the accounts. JSON has no hashes of tokens: they are of no use to readers.
func (a *invocation) userList() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List users and the IDs of their tokens",
		RunE: func(*cobra.Command, []string) error {
			users, err := a.users()
			if err != nil {
				return err
			}
			accounts, err := users.List()
			if err != nil {
				return err
			}
			if a.json {
				for i := range accounts {
					for j := range accounts[i].Tokens {
						accounts[i].Tokens[j].Hash = ""
					}
				}
				return a.writeJSON(orEmpty(accounts))
			}
			if len(accounts) == 0 {
				a.note("There are no users. \"espalier user add NAME --role viewer\" adds one.")
			}
			for _, account := range accounts {
				kind := ""
				if account.Service {
					kind = "  (service)"
				}
				fmt.Fprintf(a.stdout, "%s  %s%s\n", account.Name, joinRoles(account.Roles), kind)
				for _, t := range account.Tokens {
					expires := "does not expire"
					if !t.Expires.IsZero() {
						expires = "expires " + t.Expires.Local().Format(time.DateTime)
					}
					fmt.Fprintf(a.stdout, "  token %s  %s  %s\n", t.ID, expires, t.Note)
				}
			}
			return nil
		},
	})
}

func joinRoles(roles []identity.Role) string {
	return strings.Join(xslices.Map(roles, func(r identity.Role) string { return string(r) }), ", ")
}

// userChange returns a command that changes an account and prints nothing. Its
// first argument is the name of the user.
func (a *invocation) userChange(
	use, short string, least, most int, wants string, change func(u *identity.Users, args []string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: takes(least, most, wants), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			users, err := a.users()
			if err != nil {
				return err
			}
			return userError(args[0], change(users, args))
		},
	}
}
