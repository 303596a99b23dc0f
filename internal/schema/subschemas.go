package schema

// The keywords whose values are maps of schemas, lists of schemas, and schemas, in all drafts.
var (
	MapKeywords    = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	ListKeywords   = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	SchemaKeywords = []string{
		"items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains",
		"propertyNames", "not", "if", "then", "else",
	}
)
