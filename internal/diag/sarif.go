package diag

import (
	"io"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// SARIF writes a list in the Static Analysis Results Interchange Format 2.1.0, which code hosts and editors read.
type SARIF struct {
	Files source.Set
	// Root is the absolute path of the folder to which paths are relative; "" leaves paths unchanged.
	Root    string
	Version string // of Espalier
	// Describe returns the title of a code's page, or "".
	Describe func(Code) string
	// Help returns the text of a code's page in Markdown, or "". It may be nil.
	Help func(Code) string
	// HelpURI returns the address of a code's page; only https addresses are written. It may be nil.
	HelpURI func(Code) string
}

// Write writes a list.
func (s SARIF) Write(w io.Writer, l List) error {
	rules, index := s.rules(l)
	results := make([]sarifResult, 0, len(l))
	for _, d := range l.Located(s.Files) {
		text := d.Message
		if d.Help != "" {
			text += " " + d.Help // viewers show only the message
		}
		r := sarifResult{
			RuleID: d.Code, RuleIndex: index[d.Code], Level: d.Severity, Message: sarifText{text},
			Locations: []sarifLocation{},
		}
		if !d.Span.IsZero() {
			r.Locations = append(r.Locations, s.location(d.Span))
		}
		for i, other := range d.Related {
			if other.Span.IsZero() {
				continue
			}
			related := s.location(other.Span)
			related.ID = i + 1
			related.Message = &sarifText{other.Message}
			r.Related = append(r.Related, related)
		}
		r.Fixes = xslices.Map(d.Fixes, s.fix)
		results = append(results, r)
	}
	return writeIndented(w, sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs: []sarifRun{{
			Tool:       sarifTool{sarifDriver{Name: "espalier", Version: s.Version, Rules: rules}},
			ColumnKind: "utf16CodeUnits",
			Bases:      s.bases(),
			Results:    results,
		}},
	})
}

// rules describes the codes that the list uses, in their order.
func (s SARIF) rules(l List) ([]sarifRule, map[Code]int) {
	codes := xslices.Map(l, func(d Diagnostic) Code { return d.Code })
	slices.Sort(codes)
	codes = slices.Compact(codes)
	rules := make([]sarifRule, 0, len(codes))
	index := map[Code]int{}
	for i, code := range codes {
		index[code] = i
		rule := sarifRule{ID: code}
		if s.Describe != nil {
			if title := s.Describe(code); title != "" {
				rule.Short = &sarifText{title}
			}
		}
		if s.Help != nil {
			if text := s.Help(code); text != "" {
				rule.Help = &sarifHelp{Text: text, Markdown: text}
			}
		}
		if s.HelpURI != nil {
			if address := s.HelpURI(code); strings.HasPrefix(address, "https://") {
				rule.HelpURI = address
			}
		}
		rules = append(rules, rule)
	}
	return rules, index
}

func (s SARIF) location(span source.Span) sarifLocation {
	at := sarifPhysical{Artifact: artifact(span.File)}
	if f := s.Files[span.File]; f != nil {
		at.Artifact = artifact(s.path(f))
		start, end := utf16Position(f, span.Start), utf16Position(f, span.End)
		at.Region = &sarifRegion{start.Line, start.Column, end.Line, end.Column}
	}
	return sarifLocation{Physical: at}
}

// fix groups the edits of a fix by file, as SARIF does.
func (s SARIF) fix(fix Fix) sarifFix {
	out := sarifFix{Description: sarifText{fix.Title}}
	for _, edit := range fix.Edits {
		at := s.location(edit.Span).Physical
		i := slices.IndexFunc(out.Changes, func(c sarifChange) bool { return c.Artifact == at.Artifact })
		if i < 0 {
			i = len(out.Changes)
			out.Changes = append(out.Changes, sarifChange{Artifact: at.Artifact})
		}
		out.Changes[i].Replacements = append(out.Changes[i].Replacements,
			sarifReplacement{Deleted: at.Region, Inserted: sarifText{edit.NewText}})
	}
	return out
}

const sourceRoot = "%SRCROOT%"

// bases returns the address of the root.
func (s SARIF) bases() map[string]sarifArtifact {
	if s.Root == "" {
		return nil
	}
	folder := artifact(strings.TrimSuffix(filepath.ToSlash(s.Root), "/"))
	folder.URI += "/"
	return map[string]sarifArtifact{sourceRoot: folder}
}

// path returns the path of a file relative to the root, or its absolute path if it is outside.
func (s SARIF) path(f *source.File) string {
	if s.Root == "" || f.Abs == "" {
		return f.Path
	}
	if below, err := filepath.Rel(s.Root, f.Abs); err == nil && filepath.IsLocal(below) {
		return filepath.ToSlash(below)
	}
	return filepath.ToSlash(f.Abs)
}

// artifact returns the URI of a file: relative to the root if the path is, otherwise a file: address.
func artifact(file string) sarifArtifact {
	if drive := len(file) > 2 && file[1:3] == ":/"; drive || path.IsAbs(file) {
		return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(file, "/")}).String()}
	}
	return sarifArtifact{URI: (&url.URL{Path: path.Clean(file)}).String(), BaseID: sourceRoot}
}

// utf16Position counts columns in UTF-16 code units, like editors and code hosts.
func utf16Position(f *source.File, offset int) source.Position {
	p := f.Position(offset)
	line := f.Line(p.Line)
	before := line[:min(offset-f.Offset(p.Line, 1), len(line))]
	p.Column = 1
	for _, r := range before {
		p.Column += max(utf16.RuneLen(r), 1)
	}
	return p
}

type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool `json:"tool"`
		ColumnKind string    `json:"columnKind"`
		// Bases are the folders to which addresses may be relative.
		Bases   map[string]sarifArtifact `json:"originalUriBaseIds,omitempty"`
		Results []sarifResult            `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      Code       `json:"id"`
		Short   *sarifText `json:"shortDescription,omitempty"`
		Help    *sarifHelp `json:"help,omitempty"`
		HelpURI string     `json:"helpUri,omitempty"`
	}
	sarifHelp struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    Code            `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     Severity        `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Related   []sarifLocation `json:"relatedLocations,omitempty"`
		Fixes     []sarifFix      `json:"fixes,omitempty"`
	}
	sarifFix struct {
		Description sarifText     `json:"description"`
		Changes     []sarifChange `json:"artifactChanges"`
	}
	sarifChange struct {
		Artifact     sarifArtifact      `json:"artifactLocation"`
		Replacements []sarifReplacement `json:"replacements"`
	}
	sarifReplacement struct {
		Deleted  *sarifRegion `json:"deletedRegion"`
		Inserted sarifText    `json:"insertedContent"`
	}
	sarifLocation struct {
		ID       int           `json:"id,omitempty"`
		Physical sarifPhysical `json:"physicalLocation"`
		Message  *sarifText    `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
		EndLine     int `json:"endLine"`
		EndColumn   int `json:"endColumn"`
	}
)
