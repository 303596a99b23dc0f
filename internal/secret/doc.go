// Package secret keeps the values of secrets out of everything that is
// written or shown: Hide puts "[secret NAME]" in their place, Reveal puts the
// values back at the moment of use.
package secret

// What is hidden is what people get to see: no reader of the journal has to do
// anything for it. For that the mark must be safe: text that merely looks like
// one, in a web page or a model's reply, must never be turned into a value. So
// Hide escapes whatever begins like a mark, and Reveal undoes exactly that.
// Hide and Reveal therefore come in pairs, each once: hidden is what the
// engine, the plan and the journal hold; revealed is what a task works with.
//
// A value is also found in the forms in which programs pass it on (see
// forms), and a mark says which form it stands for, so that what is put back
// is what was there, byte for byte.
