package sqlaction

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
)

// Declared is one SQL statement with parameters.
//
// It returns exactly one row of two columns, the reference (text) and the
// receipt (a json or jsonb object of at most 64 KiB), by RETURNING or a SELECT
// over what it changed. A statement that returns no row, such as an UPDATE
// whose condition nothing met, is refused and rolled back.
//
// All its effects must be in the transaction: dblink, foreign tables, COPY to a
// program and the like are beyond the promises of this package.
type Declared struct {
	// SQL begins with SELECT, INSERT, UPDATE, DELETE, MERGE or WITH, and has its
	// parameters as $1, $2 and so on.
	SQL string
	// Params returns the parameters of a call, and must depend on nothing but
	// the call. Allowed are nil, bool, string, integers, float64, json.Number,
	// json.RawMessage (for json and jsonb), []byte (for bytea), time.Time,
	// []string and []int64. Text can stand for a value of any type, such as a
	// uuid or a date. Nil means that there are none.
	//
	// Its error is shown to the caller as a refusal of the arguments.
	Params func(call actions.Call) ([]any, error)
}

// bind returns the statement with the parameters of a call.
func (d Declared) bind(call actions.Call) (actions.Statement, error) {
	args, _, err := d.params(call)
	return actions.Statement{SQL: d.SQL, Args: args}, err
}

var (
	errNoStatement = errors.New("sqlaction: empty statement")

	leadingSpace = regexp.MustCompile(`^(?:\s+|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/)+`)
	leadingWord  = regexp.MustCompile(`^\(*[A-Za-z]+`)
)

// check refuses what could end the transaction that it runs in, or return no
// row. It is an allow-list; that there is one statement only is the database's
// to see.
func (d Declared) check() error {
	text := leadingSpace.ReplaceAllString(d.SQL, "")
	if text == "" {
		return errNoStatement
	}
	word := strings.ToUpper(strings.TrimLeft(leadingWord.FindString(text), "("))
	if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH"}, word) {
		return fmt.Errorf("sqlaction: the statement begins with %.20q: want SELECT, INSERT, UPDATE, DELETE, MERGE or WITH", text)
	}
	return nil
}

// params returns the parameters as they are handed to the driver, and a text
// for each that no other value has.
func (d Declared) params(call actions.Call) (args []any, texts []string, err error) {
	if d.Params == nil {
		return nil, nil, nil
	}
	given, err := d.Params(call)
	if err != nil {
		return nil, nil, err
	}
	for i, v := range given {
		arg, text, err := parameter(v)
		if err != nil {
			return nil, nil, fmt.Errorf("parameter $%d: %w", i+1, err)
		}
		args, texts = append(args, arg), append(texts, text)
	}
	return args, texts, nil
}

// parameter is what becomes of one value. Numbers of unknown size and JSON go to
// the database as text, which loses nothing.
func parameter(v any) (arg any, text string, err error) {
	switch v := v.(type) {
	case nil:
		return nil, "null", nil
	case bool:
		return v, "bool:" + strconv.FormatBool(v), nil
	case string:
		return v, "text:" + v, nil
	case int:
		return int64(v), "int:" + strconv.Itoa(v), nil
	case int32:
		return int64(v), "int:" + strconv.FormatInt(int64(v), 10), nil
	case int64:
		return v, "int:" + strconv.FormatInt(v, 10), nil
	case float64:
		return v, "float:" + strconv.FormatFloat(v, 'g', -1, 64), nil
	case json.Number:
		return string(v), "text:" + string(v), nil
	case json.RawMessage:
		if v == nil {
			return nil, "null", nil
		}
		return string(v), "text:" + string(v), nil
	case []byte:
		if v == nil {
			return nil, "null", nil
		}
		return v, "bytes:" + hex.EncodeToString(v), nil
	case time.Time:
		v = v.UTC()
		return v, "time:" + v.Format(time.RFC3339Nano), nil
	case []string:
		list, err := json.Marshal(v)
		return v, "texts:" + string(list), err
	case []int64:
		list, err := json.Marshal(v)
		return v, "ints:" + string(list), err
	default:
		return nil, "", fmt.Errorf("a %T is not allowed; see sqlaction.Declared", v)
	}
}

// frozen is the form of a request that is rendered. The table is a part of it:
// with another table, an earlier attempt would not be found.
type frozen struct {
	Table  string   `json:"table"`
	SQL    string   `json:"sql"`
	Params []string `json:"params"`
}

// request is one attempt's statement, and the hash that tells it from others.
type request struct {
	actions.Statement
	rendered []byte
	hash     [sha256.Size]byte
}

func (d Declared) request(call actions.Call, table string) (request, error) {
	args, texts, err := d.params(call)
	if err != nil {
		return request{}, err
	}
	rendered, err := json.Marshal(frozen{Table: table, SQL: d.SQL, Params: texts})
	if err != nil {
		return request{}, err
	}
	return request{Statement: actions.Statement{SQL: d.SQL, Args: args}, rendered: rendered, hash: sha256.Sum256(rendered)}, nil
}
