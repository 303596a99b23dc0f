// Package secret hides the values of secrets in everything that is written or displayed. Hide replaces them with marks
// such as "[secret NAME]", and Reveal restores the values when they are used.
package secret

// The engine, the plan and the journal hold hidden text; only a task works with
// revealed text. So readers of the journal need not handle secrets. Text that
// merely looks like a mark, in a web page or in the reply of a model, must
// never become a value: Hide escapes everything that starts like a mark, and
// Reveal undoes exactly that. Each text is hidden once and revealed once.
//
// Values are also found in the encodings that programs use (see matcher). A
// mark records the encoding, so that Reveal restores the original bytes. The
// exception is an encoding that cannot be reproduced, such as &auml;, for which
// Reveal returns the value itself.
