package temporal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// The metadata of an encrypted payload, as Temporal's own examples name it.
const (
	encrypted = "binary/encrypted"
	keyID     = "encryption-key-id"
)

// codec encrypts payloads with AES-256-GCM. The first key encrypts; payloads of the others can be read.
type codec struct{ keys []codecKey }

// codecKey is a key with the id that payloads name.
type codecKey struct {
	id   string
	aead cipher.AEAD
}

// Encrypt makes a client encrypt everything that it sends to the server except ids, names and search attributes. The
// keys are derived from the secrets. The first secret encrypts; the others decrypt what was encrypted with them before.
func Encrypt(options *client.Options, secrets ...string) error {
	c := codec{}
	for _, secret := range secrets {
		key, err := newCodecKey(secret)
		if err != nil {
			return err
		}
		c.keys = append(c.keys, key)
	}
	options.DataConverter = converter.NewCodecDataConverter(dataConverter(), c)
	options.FailureConverter = sdktemporal.NewDefaultFailureConverter(sdktemporal.DefaultFailureConverterOptions{
		DataConverter: options.DataConverter, EncodeCommonAttributes: true,
	})
	return nil
}

// minSecret is the size of the shortest secret in bytes: 128 bits as hexadecimal digits.
const minSecret = 32

// newCodecKey derives a key and its id from a secret (HKDF with SHA-256, no salt). The info text is fixed: other
// software that decrypts payloads needs the same one.
func newCodecKey(secret string) (codecKey, error) {
	if len(secret) < minSecret {
		return codecKey{}, fmt.Errorf("the secret that encrypts payloads for Temporal has %d characters, but needs at "+
			"least %d. Run \"openssl rand -hex 32\" to generate one", len(secret), minSecret)
	}
	// The id is derived with the key, so that a payload names its key without revealing the secret.
	const idSize, keySize = 8, 32
	material, err := hkdf.Key(sha256.New, []byte(secret), nil, "espalier payloads in Temporal", idSize+keySize)
	if err != nil {
		return codecKey{}, err
	}
	block, err := aes.NewCipher(material[idSize:])
	if err != nil {
		return codecKey{}, err
	}
	aead, err := cipher.NewGCM(block)
	return codecKey{hex.EncodeToString(material[:idSize]), aead}, err
}

// Encode implements converter.PayloadCodec.
func (c codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	key := c.keys[0]
	for i, p := range payloads {
		clear, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		// The data of a payload is the nonce, the ciphertext of the whole payload with its metadata, and the tag.
		nonce := make([]byte, key.aead.NonceSize())
		_, _ = rand.Read(nonce) // it never fails
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encrypted), keyID: []byte(key.id)},
			Data:     key.aead.Seal(nonce, nonce, clear, nil),
		}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec. Payloads of runs that started before there was a key are not encrypted.
func (c codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encrypted {
			out[i] = p
			continue
		}
		clear, err := c.decrypt(string(p.GetMetadata()[keyID]), p.GetData())
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(clear, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decrypt opens a payload with the key that it names.
func (c codec) decrypt(id string, data []byte) ([]byte, error) {
	for _, key := range c.keys {
		if n := key.aead.NonceSize(); key.id == id && len(data) > n {
			return key.aead.Open(nil, data[:n], data[n:], nil)
		}
	}
	return nil, errors.New("it was encrypted with a secret that is not in the configuration")
}
