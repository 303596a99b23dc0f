// Package secret hides the values of secrets in everything that is written or displayed. Hide replaces them with marks
// such as "[secret NAME]", and Reveal restores the values when they are used.
package secret

// Hidden text is what people see, so readers of the journal need not know about
// secrets. For that, marks must be safe: text that merely looks like a mark, in a
// web page or in the reply of a model, must never become a value. Hide therefore
// escapes everything that begins like a mark, and Reveal undoes exactly that.
// Hide and Reveal come in pairs, each once: the engine, the plan and the journal
// hold hidden text, and a task works with revealed text.
//
// A value is also found in the encodings in which programs pass it on (see
// matcher). A mark says how the value was encoded, so that Reveal returns what was
// there, byte for byte. The exception is an encoding that cannot be repeated, such
// as &auml;, for which Reveal returns the value itself.
