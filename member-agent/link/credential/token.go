package credential

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// openToken opens the answer to a request, and returns it in the form in which it is kept, too. Anybody can seal
// something for a key: only a token of the member's own ServiceAccount is taken.
func openToken(sealed string, request types.UID, join *Join, key []byte) (*certificate, []byte, error) {
	private, err := parseKey(key)
	if err != nil {
		return nil, nil, err
	}
	opened, err := topology.OpenMemberToken(sealed, request, topology.MemberUser(join.Name, join.UID), private)
	if err != nil {
		return nil, nil, err
	}
	subject, err := subjectOf(opened.Token)
	if err != nil {
		return nil, nil, err
	}
	if want := topology.MemberAccount(join.Name); subject != want {
		return nil, nil, fmt.Errorf("the token is of %q, not of %s", subject, want)
	}
	data, err := json.Marshal(opened)
	if err != nil {
		return nil, nil, fmt.Errorf("write the token: %w", err)
	}
	have, err := readToken(data)
	return have, data, err
}

// readToken reads a token as it is kept in the Secret.
func readToken(data []byte) (*certificate, error) {
	token := &topology.MemberToken{}
	if err := json.Unmarshal(data, token); err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if token.Token == "" {
		return nil, errors.New("the token is empty")
	}
	sum := sha256.Sum256([]byte(token.Token))
	return &certificate{
		user:   token.User,
		from:   token.From.Time,
		until:  token.Until.Time,
		serial: hex.EncodeToString(sum[:]),
		token:  token.Token,
	}, nil
}

// subjectOf returns whose token it is, as it says itself: the hub is the one who checks it.
func subjectOf(token string) (string, error) {
	const parts = 3 // header, claims, signature
	split := strings.Split(token, ".")
	if len(split) != parts {
		return "", errors.New("the token is no JWT")
	}
	claims, err := base64.RawURLEncoding.DecodeString(split[1])
	if err != nil {
		return "", fmt.Errorf("read the claims of the token: %w", err)
	}
	var says struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(claims, &says); err != nil {
		return "", fmt.Errorf("read the claims of the token: %w", err)
	}
	return says.Subject, nil
}
