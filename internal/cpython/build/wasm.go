package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The sections of a module that are changed or read.
const (
	sectionCustom  = 0
	sectionMemory  = 5
	sectionGlobal  = 6
	sectionExport  = 7
	sectionElement = 9
	sectionData    = 11
)

type section struct {
	id   byte
	body []byte
}

var header = []byte("\x00asm\x01\x00\x00\x00")

// split returns the sections of a module without the custom ones, which hold
// information for debuggers.
func split(wasm []byte) ([]section, error) {
	rest, ok := bytes.CutPrefix(wasm, header)
	if !ok {
		return nil, errors.New("this is not a WebAssembly module")
	}
	var out []section
	for len(rest) > 0 {
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || uint64(len(rest)-1-n) < size {
			return nil, errors.New("a section is cut off")
		}
		end := 1 + n + int(size)
		if rest[0] != sectionCustom {
			out = append(out, section{rest[0], rest[1+n : end]})
		}
		rest = rest[end:]
	}
	return out, nil
}

// join writes a module with sections that change returns.
func join(sections []section, change func(section) ([]byte, error)) ([]byte, error) {
	out := bytes.Clone(header)
	for _, s := range sections {
		body, err := change(s)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, s.id), leb(uint64(len(body)))...), body...)
	}
	return out, nil
}

func addExport(body []byte, name string, kind byte, index uint32) ([]byte, error) {
	count, n := binary.Uvarint(body)
	if n <= 0 {
		return nil, errors.New("the exports are cut off")
	}
	out := append(leb(count+1), body[n:]...)
	out = append(append(out, leb(uint64(len(name)))...), name...)
	return append(append(out, kind), leb(uint64(index))...), nil
}

// tableEntry returns the function at a place of the table.
func tableEntry(sections []section, at uint32) (uint32, error) {
	for _, s := range sections {
		if s.id != sectionElement {
			continue
		}
		// One active segment that begins at a constant: count, flags, i32.const, offset, end, length.
		r := bytes.NewReader(s.body)
		var fields [6]uint64
		for i := range fields {
			v, err := binary.ReadUvarint(r)
			if err != nil {
				return 0, err
			}
			fields[i] = v
		}
		if fields[0] != 1 || fields[1] != 0 || fields[2] != 0x41 || fields[4] != 0x0b {
			return 0, fmt.Errorf("the table is initialized in a way that is not supported: %v", fields)
		}
		offset, length := fields[3], fields[5]
		for i := range length {
			f, err := binary.ReadUvarint(r)
			if err != nil {
				return 0, err
			}
			if offset+i == uint64(at) {
				return uint32(f), nil
			}
		}
	}
	return 0, fmt.Errorf("the table has no function %d", at)
}

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func leb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func signedLEB(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
