// Package expr owns the question "what do the expressions of a resourcesPolicy compute". It is pure.
//
// The rule: numbers, percentages such as 50%, quantities such as 100Mi, one variable that is a quantity, + - * / and
// parentheses, and max(a, b) and min(a, b). A number that meets a quantity in + - max and min counts as so many units.
// Products of two quantities and divisions by a quantity are mistakes; Parse finds all of them, so that a parsed
// expression always computes something. Results are exact, and cut to thousandths at the end.
// Example: max(cpu*50%, 50m) is 100m for a cpu of 200m.
package expr

import (
	"fmt"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Expression computes a quantity from a variable.
type Expression struct {
	text string
	root node
}

// Parse returns the expression. variable is the only name that it may use. A [Mistake] says what cannot be computed.
func Parse(text, variable string) (*Expression, error) {
	p := &parser{text: text, variable: variable}
	root, err := p.sum()
	if err == nil {
		if p.space(); p.at < len(p.text) {
			err = p.mistake(p.at, fmt.Sprintf("%q does not continue the expression", p.rest()))
		}
	}
	if err != nil {
		return nil, err
	}
	return &Expression{text: text, root: root}, nil
}

// Value returns what the expression is for a value of its variable. It errs for results that no resource can have.
func (e *Expression) Value(variable resource.Quantity) (resource.Quantity, error) {
	result := e.root.eval(rational(variable))
	if result.Sign() < 0 {
		return resource.Quantity{}, fmt.Errorf("%s is negative for %s: use max(%s, 0)", e.text, variable.String(), e.text)
	}
	milli := new(big.Int).Quo(new(big.Int).Mul(result.Num(), big.NewInt(1000)), result.Denom())
	if !milli.IsInt64() {
		units := new(big.Int).Quo(milli, big.NewInt(1000))
		if !units.IsInt64() {
			return resource.Quantity{}, fmt.Errorf("%s is more than a quantity can be for %s", e.text, variable.String())
		}
		return *resource.NewQuantity(units.Int64(), variable.Format), nil
	}
	format := variable.Format
	if milli.Int64()%1000 != 0 {
		format = resource.DecimalSI
	}
	return *resource.NewMilliQuantity(milli.Int64(), format), nil
}

// Mistake says why an expression cannot be computed.
type Mistake struct {
	// Text is the expression, and Position where in it the mistake is: 1 for the first character.
	Text     string
	Position int
	Reason   string
}

// Error says what is wrong and where.
func (m *Mistake) Error() string {
	text := []rune(m.Text)
	if len(text) > maxShown {
		text = append(text[:maxShown:maxShown], '…')
	}
	return fmt.Sprintf("%q cannot be computed: at character %d, %s", string(text), m.Position, m.Reason)
}

// maxShown is how much of an expression a message shows.
const maxShown = 60

// node is a part of an expression. quantity reports whether it has a unit; a part without one is constant.
type node struct {
	quantity bool
	eval     func(variable *big.Rat) *big.Rat
}

func constant(value *big.Rat, quantity bool) node {
	return node{quantity, func(*big.Rat) *big.Rat { return value }}
}

// combine returns the node of an operation on two.
func combine(a, b node, f func(z, x, y *big.Rat) *big.Rat) node {
	return node{a.quantity || b.quantity, func(v *big.Rat) *big.Rat { return f(new(big.Rat), a.eval(v), b.eval(v)) }}
}

func greater(z, x, y *big.Rat) *big.Rat {
	if x.Cmp(y) < 0 {
		x = y
	}
	return z.Set(x)
}

func less(z, x, y *big.Rat) *big.Rat {
	if x.Cmp(y) > 0 {
		x = y
	}
	return z.Set(x)
}

// Bounds of what is computed with. An exponent is a few characters, and what it stands for can fill the memory.
const (
	mostScale = 30
	mostBits  = 512
)

// Bounded reports whether a quantity can be computed with: it has at most 30 digits before or after the point that its
// exponent makes. No container has more.
func Bounded(q resource.Quantity) bool {
	dec := q.AsDec() // of the copy
	return abs(int(dec.Scale())) <= mostScale && dec.UnscaledBig().BitLen() <= mostBits
}

// rational returns the exact value of a quantity, which is [Bounded].
func rational(q resource.Quantity) *big.Rat {
	dec := q.AsDec()
	value := new(big.Rat).SetInt(dec.UnscaledBig())
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(abs(int(dec.Scale())))), nil))
	if dec.Scale() > 0 {
		return value.Quo(value, power)
	}
	return value.Mul(value, power)
}

func abs(n int) int { return max(n, -n) }

// parser reads an expression from the left.
type parser struct {
	text, variable string
	at, depth      int
}

func (p *parser) mistake(at int, reason string) error {
	return &Mistake{Text: p.text, Position: at + 1, Reason: reason}
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.ContainsRune(" \t\n\r", rune(p.text[p.at])) {
		p.at++
	}
}

// rest is the beginning of what is left.
func (p *parser) rest() string {
	rest := []rune(p.text[p.at:])
	return string(rest[:min(len(rest), 20)])
}

// next reads one of the characters and returns it, 0 if there is another one.
func (p *parser) next(characters string) byte {
	p.space()
	if p.at < len(p.text) && strings.IndexByte(characters, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *parser) sum() (node, error) {
	left, err := p.product()
	for err == nil {
		sign := p.next("+-")
		if sign == 0 {
			break
		}
		var right node
		if right, err = p.product(); err != nil {
			break
		}
		if sign == '+' {
			left = combine(left, right, (*big.Rat).Add)
		} else {
			left = combine(left, right, (*big.Rat).Sub)
		}
	}
	return left, err
}

func (p *parser) product() (node, error) {
	left, err := p.factor()
	for err == nil {
		sign := p.next("*/")
		if sign == 0 {
			break
		}
		at := p.at - 1
		var right node
		if right, err = p.factor(); err != nil {
			break
		}
		switch {
		case sign == '*' && left.quantity && right.quantity:
			err = p.mistake(at, "a quantity is multiplied by a quantity: make one of them a number")
		case sign == '*':
			left = combine(left, right, (*big.Rat).Mul)
		case right.quantity:
			err = p.mistake(at, "something is divided by a quantity: divide by a number")
		case right.eval(nil).Sign() == 0:
			err = p.mistake(at, "something is divided by 0: divide by another number")
		default:
			left = combine(left, right, (*big.Rat).Quo)
		}
	}
	return left, err
}

// maxDepth bounds how deep parentheses are nested.
const maxDepth = 100

func (p *parser) factor() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return node{}, p.mistake(p.at, "there are too many parentheses and signs inside each other")
	}
	defer func() { p.depth-- }()
	if sign := p.next("+-"); sign != 0 {
		inner, err := p.factor()
		if sign == '-' && err == nil {
			inner = combine(constant(new(big.Rat), false), inner, (*big.Rat).Sub)
		}
		return inner, err
	}
	if p.next("(") != 0 {
		inner, err := p.sum()
		if err == nil && p.next(")") == 0 {
			err = p.mistake(p.at, "a closing parenthesis is missing")
		}
		return inner, err
	}
	return p.operand()
}

// operand reads a name or a number, with what belongs to it.
func (p *parser) operand() (node, error) {
	p.space()
	start := p.at
	for p.at < len(p.text) && isPart(p.text[start:], p.at-start) {
		p.at++
	}
	word := p.text[start:p.at]
	switch {
	case word == "" && p.at == len(p.text):
		return node{}, p.mistake(start, "the expression ends too early")
	case word == "":
		return node{}, p.mistake(start, fmt.Sprintf("%q is neither a number nor a name", p.rest()))
	case word == p.variable:
		return node{true, func(v *big.Rat) *big.Rat { return v }}, nil
	case word == "max" || word == "min":
		return p.call(word, start)
	case !isDigit(word[0]) && word[0] != '.':
		return node{}, p.mistake(start, fmt.Sprintf("%s is not known: use %s, max or min", word, p.variable))
	}
	return p.number(word, start)
}

func (p *parser) call(name string, start int) (node, error) {
	if p.next("(") == 0 {
		return node{}, p.mistake(start, name+" has no arguments: give two in parentheses")
	}
	left, err := p.sum()
	if err != nil {
		return node{}, err
	}
	if p.next(",") == 0 {
		return node{}, p.mistake(p.at, name+" takes two arguments with a comma between them")
	}
	right, err := p.sum()
	if err != nil {
		return node{}, err
	}
	if p.next(")") == 0 {
		return node{}, p.mistake(p.at, name+" takes two arguments and a closing parenthesis")
	}
	if name == "max" {
		return combine(left, right, greater), nil
	}
	return combine(left, right, less), nil
}

// number reads a number, a percentage or a quantity.
func (p *parser) number(word string, start int) (node, error) {
	beyond := fmt.Sprintf("%q is too large or too small to compute with", word)
	if _, exponent, has := strings.Cut(strings.ToLower(word), "e"); has && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return node{}, p.mistake(start, beyond) // the parser would write a small one out
	}
	quantity, err := resource.ParseQuantity(word)
	if err != nil {
		return node{}, p.mistake(start, fmt.Sprintf("%q is neither a number nor a quantity", word))
	}
	if !Bounded(quantity) {
		return node{}, p.mistake(start, beyond)
	}
	value := rational(quantity)
	if p.at < len(p.text) && p.text[p.at] == '%' {
		p.at++
		return constant(value.Quo(value, big.NewRat(100, 1)), false), nil
	}
	plain := strings.IndexFunc(word, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) < 0
	return constant(value, !plain), nil
}

// isPart reports whether the character at i of the text is part of a name or a number; a sign is one in an exponent.
func isPart(text string, i int) bool {
	c := text[i]
	if isDigit(c) || c == '.' || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return true
	}
	return (c == '+' || c == '-') && i > 1 && isDigit(text[0]) && (text[i-1] == 'e' || text[i-1] == 'E') &&
		i+1 < len(text) && isDigit(text[i+1])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
