package check

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/netresearch/go-cron"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

// header checks what a file says before its first step.
func (c *checker) header() {
	c.version()
	for i := range c.p.Triggers {
		c.trigger(&c.p.Triggers[i])
	}
	if c.p.Input != nil {
		c.schema(c.p.Input, "the input")
	}
	if c.p.Output != nil {
		c.schema(c.p.Output, "the output")
	}
	for i := range c.p.Vars {
		v := &c.p.Vars[i]
		c.schema(&ir.Contract{Schema: v.Schema, Span: v.Span}, fmt.Sprintf("%q", v.Path))
	}
}

func (c *checker) version() {
	if c.p.Version == "" {
		return
	}
	v, err := semver.StrictNewVersion(c.p.Version)
	if err == nil && v.Prerelease() == "" && v.Metadata() == "" {
		return
	}
	at := c.p.Span
	for i := range c.p.Meta {
		if c.p.Meta[i].Name == "version" {
			at = c.p.Meta[i].Span
		}
	}
	help := "Write three numbers with dots, such as \"1.0.0\"."
	if loose, err := semver.NewVersion(c.p.Version); err == nil {
		help = fmt.Sprintf("Write \"%d.%d.%d\".", loose.Major(), loose.Minor(), loose.Patch())
	}
	c.add(CodeVersion, diag.Warning, at, fmt.Sprintf("The version %q is not of the form X.Y.Z.", c.p.Version), help)
}

// trigger checks a schedule and its time zone.
func (c *checker) trigger(t *ir.Trigger) {
	zone := time.UTC
	if t.Timezone != "" {
		loaded, err := time.LoadLocation(t.Timezone)
		if err != nil || t.Timezone == "Local" {
			c.add(CodeTimezone, diag.Error, spanOr(t.TimezoneSpan, t.Span),
				fmt.Sprintf("There is no time zone %q.", t.Timezone),
				zoneHelp(t.Timezone))
		} else {
			zone = loaded
		}
	}
	if t.Kind != ir.OnSchedule {
		return
	}
	schedule, err := cronParser.Parse(t.Schedule)
	if err != nil {
		c.add(CodeSchedule, diag.Error, t.Span,
			fmt.Sprintf("The schedule %q cannot be read: %s.", t.Schedule, strings.TrimSuffix(cronProblem(t.Schedule, err), ".")),
			"Write five fields (minute, hour, day of month, month, day of week), such as \"0 6 * * 1-5\".")
		return
	}
	if schedule.Next(epoch.In(zone)).IsZero() {
		c.add(CodeSchedule, diag.Error, t.Span,
			fmt.Sprintf("The schedule %q never fires: there is no such day.", t.Schedule),
			"Choose a day that the month has.")
	}
}

// cronParser reads five fields, or a word such as @daily.
var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// epoch is where the search for a schedule's first time begins. A fixed day
// makes the same file give the same answer for ever.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

func cronProblem(spec string, err error) string {
	if n := len(strings.Fields(spec)); n != 5 && !strings.HasPrefix(spec, "@") {
		return fmt.Sprintf("it has %d fields, not five", n)
	}
	return err.Error()
}

func zoneHelp(name string) string {
	if near := diag.Nearest(name, commonZones); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "Write a name of the IANA list, such as \"Europe/Berlin\" or \"UTC\"."
}

// commonZones are the names that a misspelt one is compared with. The list
// of all is not to be had from the time package.
var commonZones = []string{
	"UTC", "Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi",
	"America/Argentina/Buenos_Aires", "America/Bogota", "America/Chicago", "America/Denver", "America/Halifax",
	"America/Lima", "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Phoenix",
	"America/Santiago", "America/Sao_Paulo", "America/Toronto", "America/Vancouver",
	"Asia/Bangkok", "Asia/Dhaka", "Asia/Dubai", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Jerusalem", "Asia/Karachi",
	"Asia/Kolkata", "Asia/Manila", "Asia/Riyadh", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Tehran", "Asia/Tokyo",
	"Australia/Brisbane", "Australia/Melbourne", "Australia/Perth", "Australia/Sydney", "Pacific/Auckland",
	"Europe/Amsterdam", "Europe/Athens", "Europe/Berlin", "Europe/Brussels", "Europe/Copenhagen", "Europe/Dublin",
	"Europe/Helsinki", "Europe/Istanbul", "Europe/Kyiv", "Europe/Lisbon", "Europe/London", "Europe/Madrid",
	"Europe/Moscow", "Europe/Oslo", "Europe/Paris", "Europe/Prague", "Europe/Rome", "Europe/Stockholm",
	"Europe/Vienna", "Europe/Warsaw", "Europe/Zurich",
}

// noLoader refuses every document that is not part of the schema itself.
type noLoader struct{}

var errElsewhere = errors.New("only references inside the schema itself are followed")

// Load refuses.
func (noLoader) Load(string) (any, error) { return nil, errElsewhere }

// schema checks that a contract is a JSON Schema.
func (c *checker) schema(contract *ir.Contract, of string) {
	if len(contract.Schema) == 0 {
		return
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(contract.Schema))
	if err != nil {
		c.badSchema(contract, of, problem{why: "it is not JSON"})
		return
	}
	const here = "schema:///"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(here, doc); err != nil {
		c.badSchema(contract, of, problem{why: err.Error()})
		return
	}
	if _, err = compiler.Compile(here); err == nil {
		return
	}
	c.badSchema(contract, of, schemaProblem(err, here))
}

func (c *checker) badSchema(contract *ir.Contract, of string, p problem) {
	where := ""
	if p.pointer != "" {
		where = " at " + p.pointer
	}
	c.add(CodeSchema, diag.Error, contract.Span,
		fmt.Sprintf("The schema of %s is not a JSON Schema%s: %s.", of, where, p.why),
		cmp.Or(p.help, "Correct it as JSON Schema (draft 2020-12) wants it."))
}

// problem is what is wrong with a schema, where in it, and what to do.
type problem struct{ pointer, why, help string }

// schemaProblem finds the innermost complaint, and where in the schema it is.
func schemaProblem(err error, here string) problem {
	var (
		invalid *jsonschema.SchemaValidationError
		load    *jsonschema.LoadURLError
		regex   *jsonschema.InvalidRegexError
		ref     *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &invalid):
		var deep *jsonschema.ValidationError
		if errors.As(invalid.Err, &deep) {
			return complaint(innermost(deep))
		}
	case errors.As(err, &load):
		return problem{
			why:  fmt.Sprintf("it refers to %q, and only references inside the schema itself are followed", strings.TrimPrefix(load.URL, here)),
			help: "Copy what it refers to under \"$defs\", and refer to it there.",
		}
	case errors.As(err, &regex):
		return problem{pointer: strings.TrimPrefix(regex.URL, here+"#"), why: fmt.Sprintf("%q is not a regular expression", regex.Regex)}
	case errors.As(err, &ref):
		return problem{why: fmt.Sprintf("it refers to %q, which it does not have", strings.TrimPrefix(ref.URL, here))}
	case errors.As(err, &anchor):
		return problem{why: fmt.Sprintf("it refers to the anchor %q, which it does not have", anchor.Reference)}
	}
	return problem{why: strings.ReplaceAll(err.Error(), here, "")}
}

// innermost follows the causes down to the one that says most: the deepest
// place in the schema, the first of several in the order of their places.
func innermost(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, cause := range e.Causes {
		deep := innermost(cause)
		a, b := deep.InstanceLocation, best.InstanceLocation
		if best == e || len(a) > len(b) || len(a) == len(b) && strings.Join(a, "/") < strings.Join(b, "/") {
			best = deep
		}
	}
	return best
}

// complaint says what is wrong with a value in a schema.
func complaint(e *jsonschema.ValidationError) problem {
	p := problem{pointer: "/" + strings.Join(e.InstanceLocation, "/"), why: e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
	switch k := e.ErrorKind.(type) {
	case *kind.Enum:
		var want []string
		for _, v := range k.Want {
			want = append(want, fmt.Sprint(v))
		}
		got := fmt.Sprint(k.Got)
		p.why = fmt.Sprintf("%q is not a value that it may have there", got)
		p.help = diag.DidYouMean(got, want)
	case *kind.Format:
		p.why = fmt.Sprintf("%q is not a valid %s", fmt.Sprint(k.Got), k.Want)
	case *kind.Type:
		p.why = fmt.Sprintf("it wants %s there, not %s", strings.Join(k.Want, " or "), k.Got)
	}
	return p
}
