package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Decode decodes the JSON of a register. It leaves into as it is if the register does not exist.
func (r *Register) Decode(into any) error {
	if r.Version == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Data, into); err != nil {
		return fmt.Errorf("the register %s is damaged: %w", r.Key, err)
	}
	return nil
}

// SaveJSON saves a register with a value as JSON, see Registers.Save.
func SaveJSON(ctx context.Context, s Registers, r Register, value any) (version int64, err error) {
	if r.Data, err = json.Marshal(value); err != nil {
		return 0, err
	}
	return s.Save(ctx, r)
}

// RemoveRegisters removes the registers with a prefix that are old. One that another process changes meanwhile stays.
func RemoveRegisters(ctx context.Context, s Registers, prefix string, old func(*Register) (bool, error)) error {
	all, err := s.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, r := range all {
		remove, err := old(&r)
		if err == nil && remove {
			_, err = s.Save(ctx, Register{Key: r.Key, Version: r.Version})
		}
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return nil
}
