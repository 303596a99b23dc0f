package simulated

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/espalier-run/espalier/internal/contract"
)

// subject is the kind of content that the name of a value suggests.
type subject int

const (
	anything subject = iota
	aSentence
	aTitle
	aPerson
	aCompany
	anEmail
	aLink
	aDate
	aMoment
	aPhone
	aPlace
	aCountry
	aCurrency
	aLanguage
	aFile
	aVersion
	anID
	aLevel
	aStatus
	aKind
	aShare // from 0 to 1
	aScore // from 0 to 10
	aPercentage
	aCount
	aSum // of money
	aYear
	goodFlag // true is favorable
	badFlag  // false is favorable
	aList
	problemList // a list that is empty if there are no problems
)

// subjects maps words to subjects. Like other tables, it is created on first use,
// because most processes do not simulate.
var subjects = sync.OnceValue(func() map[string]subject {
	return byWord(map[subject]string{
		aSentence: `summary description text body draft content answer reply response message comment note notes
		reason reasoning rationale explanation finding fact quote clause analysis report brief minutes story review
		feedback advice recommendation suggestion conclusion action task question problem issue risk error detail
		details evidence goal abstract item point statement decision observation result output markdown paragraph
		sentence prompt plan outcome justification critique insight lesson step request`,
		aTitle: `title headline subject label heading topic caption theme product feature project`,
		aPerson: `owner author assignee person contact user customer client reviewer approver name sender recipient
		speaker attendee employee manager who`,
		aCompany: `company vendor organisation organization supplier employer brand publisher competitor institution`,
		anEmail:  `email mail`,
		aLink:    `url uri link href website homepage webpage source citation`,
		aDate:    `date deadline day due birthday published`,
		aMoment:  `time timestamp datetime at when`,
		aPhone:   `phone telephone mobile`,
		aPlace:   `city town location place address region venue`,
		aCountry: `country nation`, aCurrency: `currency`, aLanguage: `language locale lang`,
		aFile:       `file path filename filepath document attachment artifact`,
		aVersion:    `version release`,
		anID:        `id identifier key ref code slug uuid sku`,
		aLevel:      `severity priority level urgency importance impact likelihood tier grade size`,
		aStatus:     `status state stage phase`,
		aKind:       `kind type category class classification sentiment tone genre tag keyword intent role`,
		aShare:      `confidence probability ratio share certainty similarity accuracy weight fraction relevance`,
		aScore:      `score rating rank quality`,
		aPercentage: `percent percentage pct`,
		aCount: `count total number quantity length pages words index position hours days weeks months age duration
		seconds tokens`,
		aSum:  `price cost amount budget fee revenue salary value sum balance turnover`,
		aYear: `year`,
		goodFlag: `approved ok okay passed valid enough good complete completed done success successful ready
		satisfied accepted finished correct verified resolved confirmed safe compliant accurate sufficient pass
		passes`,
		badFlag: `blocked failed invalid incomplete escalate escalated retry more rejected conflict duplicate spam
		unsafe revise revision rework required needed needs flagged`,
		aList: `items results findings actions steps tags keywords sources reasons recommendations questions facts
		topics points links files names highlights options sections tasks entries records suggestions references
		citations attendees participants insights quotes examples decisions deadlines owners changes rows list`,
		problemList: `problems issues errors missing concerns violations blockers objections gaps warnings defects
		flaws`,
	})
})

func byWord(words map[subject]string) map[string]subject {
	out := map[string]subject{}
	for s, all := range words {
		for word := range strings.FieldsSeq(all) {
			out[word] = s
		}
	}
	return out
}

// subjectOf returns the subject of a value. The last word of the name takes
// precedence: a customer_email is an email.
func subjectOf(name, description string) subject {
	words := split(name)
	for _, word := range slices.Backward(words) {
		if s := subjects()[word]; s != anything {
			return s
		}
	}
	for _, word := range split(description) {
		if s := subjects()[word]; s == anEmail || s == aLink || s == aDate {
			return s
		}
	}
	return anything
}

// split splits a name into words: goodEnough, good_enough and Good-Enough are
// the same two words.
func split(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
	}
	end()
	return words
}

// readable returns a name as words in a sentence: "good enough".
func readable(name string) string { return strings.Join(split(name), " ") }

// singular returns the name of an item of a list.
func singular(name string) string {
	if strings.EqualFold(name, "missing") {
		return "missing_point"
	}
	return contract.Singular(name)
}

// typeFor returns the JSON type that a subject suggests.
func (s subject) typeFor() string {
	switch s {
	case aShare, aScore, aPercentage, aSum:
		return "number"
	case aCount, aYear:
		return "integer"
	case goodFlag, badFlag:
		return "boolean"
	case aList, problemList:
		return "array"
	}
	return "string"
}

// samples are realistic values. Addresses and phone numbers are from ranges that
// are reserved for examples.
var samples = sync.OnceValue(func() map[subject][]string {
	return map[subject][]string{
		aPerson:   {"Sam Example", "Alex Sample", "Robin Placeholder", "Kim Example"},
		aCompany:  {"Example Ltd", "Sample & Sons", "Placeholder Works"},
		anEmail:   {"sam@example.com", "alex@example.org", "robin@example.net"},
		aLink:     {"https://example.com/one", "https://example.org/two", "https://example.net/three"},
		aDate:     {"2026-03-14", "2026-05-02", "2026-09-21"},
		aMoment:   {"2026-03-14T09:30:00Z", "2026-05-02T16:00:00Z", "2026-09-21T11:15:00Z"},
		aPhone:    {"+44 20 7946 0123", "+44 113 496 0456"},
		aPlace:    {"Leeds", "Porto", "Graz", "Utrecht"},
		aCountry:  {"Portugal", "Austria", "Ireland"},
		aCurrency: {"EUR", "GBP", "USD"},
		aLanguage: {"en", "de", "pt"},
		aFile:     {"notes.md", "report.md", "figures.csv"},
		aVersion:  {"1.0.0", "1.2.0", "2.1.3"},
		aLevel:    {"low", "medium", "high"},
		aStatus:   {"open", "in progress", "done"},
		aKind:     {"general", "standard", "other"},

		aShare:      {"0.87", "0.92", "0.74", "0.81"},
		aScore:      {"8", "7", "9"},
		aPercentage: {"62", "18", "45"},
		aCount:      {"3", "7", "12"},
		aSum:        {"1250", "480", "99.5"},
		aYear:       {"2026", "2025", "2024"},
		anything:    {"3", "1", "5", "2"},
	}
})

var sentences = []string{
	"the main points agree with each other.",
	"three points stand out, and none of them is urgent.",
	"the picture is clear enough to go on.",
	"one detail would deserve a second look.",
	"nothing here stands in the way of the next step.",
	"the sources say much the same in different words.",
	"what was asked for can be done as described.",
}

// text returns a text for a subject. Sentences and titles state that they are
// simulated.
func (d dice) text(s subject, at location) string {
	what := readable(at.name)
	switch s {
	case anID:
		return fmt.Sprintf("sim-%04d", d.pick(at.path, 10000))
	case aTitle:
		return fmt.Sprintf("Simulated %s %d", cmp.Or(what, "title"), 1+d.itemIndex(at, 9))
	}
	if list := samples()[s]; len(list) > 0 && s.typeFor() == "string" && s != anything {
		return list[d.itemIndex(at, len(list))]
	}
	return fmt.Sprintf("Simulated %s: %s", cmp.Or(what, "text"), sentences[d.itemIndex(at, len(sentences))])
}

// number returns a plausible number for a subject, in decimal.
func (d dice) number(s subject, at location) string {
	list := samples()[s]
	if s.typeFor() != "number" && s.typeFor() != "integer" {
		list = samples()[anything]
	}
	return list[d.itemIndex(at, len(list))]
}

// itemIndex returns a number from 0 to n-1 that differs between neighboring items of a list.
func (d dice) itemIndex(at location, n int) int { return (d.pick(at.like, n) + at.nth) % n }

// flag returns the favorable value in three of four rounds; flags without one
// alternate. So loops end whichever value they wait for.
func (d dice) flag(s subject, question string) bool {
	switch s {
	case goodFlag:
		return d.rotate(question, 4) != 0
	case badFlag:
		return d.rotate(question, 4) == 0
	}
	return d.rotate(question, 2) == 0
}
