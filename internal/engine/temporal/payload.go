package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
)

// dataConverter returns the converter of all payloads.
func dataConverter() converter.DataConverter {
	return converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), plainJSON{})
}

// plainJSON encodes payloads as JSON without escapes for HTML, which would change
// the bytes of facts.
type plainJSON struct{}

// Encoding implements converter.PayloadConverter.
func (plainJSON) Encoding() string { return converter.MetadataEncodingJSON }

// ToPayload implements converter.PayloadConverter.
func (c plainJSON) ToPayload(value any) (*commonpb.Payload, error) {
	raw, err := jsonfast.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", converter.ErrUnableToEncode, err)
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(c.Encoding())},
		Data:     raw,
	}, nil
}

// FromPayload implements converter.PayloadConverter.
func (plainJSON) FromPayload(payload *commonpb.Payload, into any) error {
	if err := json.Unmarshal(payload.GetData(), into); err != nil {
		return fmt.Errorf("%w: %w", converter.ErrUnableToDecode, err)
	}
	return nil
}

// ToString implements converter.PayloadConverter.
func (plainJSON) ToString(payload *commonpb.Payload) string { return string(payload.GetData()) }

// retryingConverter is a data converter with which a workflow whose payloads cannot be read stays open: reading them
// panics, so the workflow task fails, and another worker may be able to read them. An error would end the workflow.
type retryingConverter struct{ converter.DataConverter }

// WithWorkflowContext implements workflow.ContextAware.
func (c retryingConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return panickingConverter(c)
}

// WithContext implements workflow.ContextAware.
func (c retryingConverter) WithContext(context.Context) converter.DataConverter { return c }

// panickingConverter panics on errors. Workflows use it.
type panickingConverter struct{ converter.DataConverter }

// FromPayload implements converter.DataConverter.
func (c panickingConverter) FromPayload(payload *commonpb.Payload, into any) error {
	if err := c.DataConverter.FromPayload(payload, into); err != nil {
		panic(err)
	}
	return nil
}

// FromPayloads implements converter.DataConverter.
func (c panickingConverter) FromPayloads(payloads *commonpb.Payloads, into ...any) error {
	if err := c.DataConverter.FromPayloads(payloads, into...); err != nil {
		panic(err)
	}
	return nil
}

// largePayload is the size in bytes above which a payload is stored in the journal.
const largePayload = 64 << 10

// blobDriver stores large payloads as blobs of the run that they belong to.
type blobDriver struct{ store Store }

func (blobDriver) Name() string { return "espalier" }
func (blobDriver) Type() string { return "espalier.journal" }

// Store implements converter.StorageDriver.
func (d blobDriver) Store(
	ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload,
) ([]converter.StorageDriverClaim, error) {
	run := runOf(ctx.Context)
	if target, ok := ctx.Target.(converter.StorageDriverWorkflowInfo); ok && run == "" {
		run = journal.RunID(target.WorkflowID[strings.LastIndexByte(target.WorkflowID, '/')+1:])
	}
	if run == "" {
		return nil, errors.New("a large payload belongs to no run")
	}
	claims := make([]converter.StorageDriverClaim, 0, len(payloads))
	blobs := make([]journal.Blob, 0, len(payloads))
	for _, p := range payloads {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return nil, err
		}
		blob := newBlob(raw)
		blobs = append(blobs, blob)
		claims = append(claims, converter.StorageDriverClaim{ClaimData: map[string]string{"blob": blob.Hash}})
	}
	return claims, ctx.GetLimiter().Permit(ctx.Context, payloads[0], func() error { // one operation for all of them
		return putBlobs(ctx.Context, d.store, run, 0, blobs...)
	})
}

// Retrieve implements converter.StorageDriver.
func (d blobDriver) Retrieve(
	ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim,
) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, 0, len(claims))
	for _, c := range claims {
		var raw []byte
		err := ctx.GetLimiter().Permit(ctx.Context, c, func() (err error) {
			raw, err = d.store.Blob(ctx.Context, c.ClaimData["blob"])
			return err
		})
		if err != nil {
			return nil, err
		}
		p := &commonpb.Payload{}
		if err := proto.Unmarshal(raw, p); err != nil {
			return nil, err
		}
		payloads = append(payloads, p)
	}
	return payloads, nil
}

// runKey is the key of the run in a context.
type runKey struct{}

// withRun returns a context for requests whose payloads belong to a run.
func withRun(ctx context.Context, run journal.RunID) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

// runOf returns the run of withRun; empty if there is none.
func runOf(ctx context.Context) journal.RunID {
	run, _ := ctx.Value(runKey{}).(journal.RunID)
	return run
}

// newBlob returns data with its hash.
func newBlob(data []byte) journal.Blob {
	sum := sha256.Sum256(data)
	return journal.Blob{Hash: hex.EncodeToString(sum[:]), Data: data}
}

// putBlobs stores blobs of an unfinished run with an append that has no events. Fence 0 is the current one.
func putBlobs(
	ctx context.Context, store Store, run journal.RunID, fence int64, blobs ...journal.Blob,
) error {
	current := fence == 0
	if current {
		fence = journal.FirstFence // of most runs
	}
	for {
		err := checkFence(ctx, store, run, fence, 0, blobs...)
		if !current || !errors.Is(err, errSuperseded) {
			return err
		}
		claim, err := claimUnfinished(ctx, store, run, store.Claim)
		if err != nil {
			return err
		}
		fence = claim.Fence
	}
}
