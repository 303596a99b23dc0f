package diag_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

func sample() (source.Set, diag.List) {
	f := source.NewFile("flows/my flow.md", "# 😀 名\nid: é <a>\nid: b\n")
	other := source.NewFile("/abs/b.md", "x\n")
	files := source.Set{}
	files.Add(f, other)
	return files, diag.List{
		{
			Code: "YAML008", Severity: diag.Error, Span: f.Span(22, 24), Message: `The key "id" is written twice.`,
			Help: "Keep one.",
			Related: []diag.Related{
				{Span: f.Span(11, 13), Message: "first written here"},
				{Span: other.Span(0, 1), Message: "also here"},
			},
		},
		{Code: "AF007", Severity: diag.Note, Span: f.Span(2, 10), Message: "A <note>.", Lenient: true},
		{Code: "PRJ001", Severity: diag.Warning, Message: "About no place."},
		{
			Code: "FMT001", Severity: diag.Error, Span: source.Span{File: "gone.md", Start: 1, End: 2},
			Message: "Not read.",
		},
	}
}

func TestReportEncodesAsDocumentedJSON(t *testing.T) {
	const want = `{
  "diagnostics": [
    {
      "code": "YAML008",
      "severity": "error",
      "file": "flows/my flow.md",
      "start": {
        "line": 3,
        "column": 1,
        "offset": 22
      },
      "end": {
        "line": 3,
        "column": 3,
        "offset": 24
      },
      "message": "The key \"id\" is written twice.",
      "help": "Keep one.",
      "related": [
        {
          "file": "flows/my flow.md",
          "start": {
            "line": 2,
            "column": 1,
            "offset": 11
          },
          "end": {
            "line": 2,
            "column": 3,
            "offset": 13
          },
          "message": "first written here"
        },
        {
          "file": "/abs/b.md",
          "start": {
            "line": 1,
            "column": 1,
            "offset": 0
          },
          "end": {
            "line": 1,
            "column": 2,
            "offset": 1
          },
          "message": "also here"
        }
      ]
    },
    {
      "code": "AF007",
      "severity": "note",
      "file": "flows/my flow.md",
      "start": {
        "line": 1,
        "column": 3,
        "offset": 2
      },
      "end": {
        "line": 1,
        "column": 6,
        "offset": 10
      },
      "message": "A <note>.",
      "lenient": true
    },
    {
      "code": "PRJ001",
      "severity": "warning",
      "message": "About no place."
    },
    {
      "code": "FMT001",
      "severity": "error",
      "file": "gone.md",
      "message": "Not read."
    }
  ],
  "errors": 2,
  "warnings": 1,
  "notes": 1
}
`
	files, list := sample()
	report := func(files source.Set, list diag.List) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(diag.NewReport(files, list)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if diff := cmp.Diff(want, report(files, list)); diff != "" {
		t.Errorf("(-wanted +got):\n%s", diff)
	}
	if got := report(nil, nil); !strings.Contains(got, `"diagnostics": []`) {
		t.Errorf("an empty list must be a list: %s", got)
	}
}

func TestSARIFContainsAllDiagnostics(t *testing.T) {
	const want = `{
  "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
  "version": "2.1.0",
  "runs": [
    {
      "tool": {
        "driver": {
          "name": "espalier",
          "version": "1.2.3",
          "rules": [
            {
              "id": "AF007"
            },
            {
              "id": "FMT001"
            },
            {
              "id": "PRJ001"
            },
            {
              "id": "YAML008",
              "shortDescription": {
                "text": "The same key twice"
              },
              "helpUri": "https://example.org/YAML008"
            }
          ]
        }
      },
      "columnKind": "utf16CodeUnits",
      "results": [
        {
          "ruleId": "YAML008",
          "ruleIndex": 3,
          "level": "error",
          "message": {
            "text": "The key \"id\" is written twice. Keep one."
          },
          "locations": [
            {
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "flows/my%20flow.md",
                  "uriBaseId": "%SRCROOT%"
                },
                "region": {
                  "startLine": 3,
                  "startColumn": 1,
                  "endLine": 3,
                  "endColumn": 3
                }
              }
            }
          ],
          "relatedLocations": [
            {
              "id": 1,
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "flows/my%20flow.md",
                  "uriBaseId": "%SRCROOT%"
                },
                "region": {
                  "startLine": 2,
                  "startColumn": 1,
                  "endLine": 2,
                  "endColumn": 3
                }
              },
              "message": {
                "text": "first written here"
              }
            },
            {
              "id": 2,
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "file:///abs/b.md"
                },
                "region": {
                  "startLine": 1,
                  "startColumn": 1,
                  "endLine": 1,
                  "endColumn": 2
                }
              },
              "message": {
                "text": "also here"
              }
            }
          ]
        },
        {
          "ruleId": "AF007",
          "ruleIndex": 0,
          "level": "note",
          "message": {
            "text": "A <note>."
          },
          "locations": [
            {
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "flows/my%20flow.md",
                  "uriBaseId": "%SRCROOT%"
                },
                "region": {
                  "startLine": 1,
                  "startColumn": 3,
                  "endLine": 1,
                  "endColumn": 7
                }
              }
            }
          ]
        },
        {
          "ruleId": "PRJ001",
          "ruleIndex": 2,
          "level": "warning",
          "message": {
            "text": "About no place."
          },
          "locations": []
        },
        {
          "ruleId": "FMT001",
          "ruleIndex": 1,
          "level": "error",
          "message": {
            "text": "Not read."
          },
          "locations": [
            {
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "gone.md",
                  "uriBaseId": "%SRCROOT%"
                }
              }
            }
          ]
        }
      ]
    }
  ]
}
`
	files, list := sample()
	sarif := diag.SARIF{
		Files: files, Version: "1.2.3",
		Describe: func(c diag.Code) string { return map[diag.Code]string{"YAML008": "The same key twice"}[c] },
		HelpURI: func(c diag.Code) string {
			return map[diag.Code]string{
				"YAML008": "https://example.org/YAML008",
				"AF007":   "http://example.org/AF007",
			}[c]
		},
	}
	var b strings.Builder
	if err := sarif.Write(&b, list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-wanted +got):\n%s", diff)
	}
}

// Names that look like URLs are treated as files.
func TestSARIFAddressesAreEscaped(t *testing.T) {
	for path, want := range map[string]string{
		"a.md":         "a.md",
		"./a.md":       "a.md",
		"../b/ü #1.md": "../b/%C3%BC%20%231.md",
		"a:b.md":       "./a:b.md",
		"50%.md":       "50%25.md",
		"/tmp/a b.md":  "file:///tmp/a%20b.md",
		"C:/x/a.md":    "file:///C:/x/a.md",
	} {
		var b strings.Builder
		list := diag.List{{Code: "AF001", Severity: diag.Error, Span: source.Span{File: path, End: 1}}}
		if err := (diag.SARIF{}).Write(&b, list); err != nil {
			t.Fatal(err)
		}
		var log struct {
			Runs []struct {
				Results []struct {
					Locations []struct {
						PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(b.String()), &log); err != nil {
			t.Fatal(err)
		}
		if got := log.Runs[0].Results[0].Locations[0].PhysicalLocation.ArtifactLocation.URI; got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
