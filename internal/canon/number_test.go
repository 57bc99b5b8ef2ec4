package canon

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkRule asserts that err is one fault by the given rule.
func checkRule(t testing.TB, what string, err error, rule string) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok || len(e.Faults) != 1 || !strings.Contains(e.Faults[0].Rule, rule) {
		t.Errorf("%s: got error %v, want %q", what, err, rule)
	}
}

// No integer is ever rounded: beyond ±(2^53−1) it is refused, in every type and every spelling, and up to there it is exact.
func TestIntegersAreExactOrRefused(t *testing.T) {
	const most = 9007199254740991
	accepted := map[string][]any{
		"9007199254740991": {
			int64(most), uint64(most), int(most), float64(most), json.Number("9007199254740991"),
			json.Number("9007199254740991.0"), json.RawMessage("9007199254740991"), json.RawMessage("90071992547409910e-1"),
		},
		"-9007199254740991": {int64(-most), float64(-most), json.Number("-9007199254740991"), json.RawMessage(" -9007199254740991 ")},
		"9007199254740990":  {int64(most - 1), json.Number("9007199254740990")},
		"0":                 {0, uint8(0), math.Copysign(0, -1), float32(math.Copysign(0, -1)), json.Number("-0"), json.RawMessage("-0.0e5"), json.RawMessage("-0")},
		"255":               {uint8(255), int16(255), json.Number("255.0"), json.RawMessage("2.55e2")},
		"1e+30":             {1e30, float32(1e30), json.Number("1E30"), json.RawMessage("1000e27")},
		"1e+21":             {1e21, json.RawMessage("1e21")},
	}
	for want, values := range accepted {
		for _, v := range values {
			if got, err := Value(v, Limits{}); err != nil || string(got) != want {
				t.Errorf("%T %v: got %s, %v, want %s", v, v, got, err, want)
			}
		}
	}
	refused := []any{
		int64(most + 1), int64(-most - 1), int64(math.MaxInt64), int64(math.MinInt64), uint64(most + 1), uint64(math.MaxUint64),
		float64(most + 1), -float64(most + 1), 1e20, 999999999999999900000.0, float32(1 << 53), float32(1e20),
		json.Number("9007199254740992"), json.Number("9007199254740993"), json.Number("-9007199254740993"),
		json.Number("9007199254740993.0"), json.Number("1e20"), json.Number("9007199254740991.5"),
		json.Number("1" + strings.Repeat("0", 40)), json.Number("1" + strings.Repeat("0", 400)),
	}
	for _, v := range refused {
		_, err := Value(v, Limits{})
		checkRule(t, "Value", err, ruleInteger)
		if n, ok := v.(json.Number); ok {
			_, err := Raw([]byte(n), Limits{})
			checkRule(t, string(n), err, ruleInteger)
		}
	}
	if !strings.Contains(ruleInteger, "send it as a string") {
		t.Error("the refusal must say what to do instead")
	}
}

func TestNumbersThatAreNotFiniteAreRefused(t *testing.T) {
	for _, v := range []any{
		math.NaN(), math.Inf(1), math.Inf(-1), float32(math.Inf(1)), json.Number("1e400"), json.Number("-1e400"),
		json.RawMessage("1e400"), json.RawMessage("-1.5E+999999999999"),
	} {
		_, err := Value(v, Limits{})
		checkRule(t, "Value", err, ruleFinite)
	}
}

// Number text that is no JSON is refused wherever it comes from; encoding/json would write 0 for an empty json.Number.
func TestNumberGrammarIsStrict(t *testing.T) {
	for _, n := range []string{
		"", "-", "+1", "01", "-01", "00", ".5", "5.", "1.e5", "1e", "1e+", "0x10", "1_000", "NaN", "Infinity", "-Infinity", "1 ",
		" 1", "1,0", "1e5.5", "--1", "١",
	} {
		_, err := Value(json.Number(n), Limits{})
		checkRule(t, n, err, ruleNumber)
		if strings.TrimSpace(n) == n {
			if _, err := Raw([]byte(n), Limits{}); err == nil {
				t.Errorf("Raw accepts %q", n)
			}
		}
	}
}

// A float32 is the decimal a person wrote, not the double it widens to.
func TestFloat32IsItsOwnShortestDecimal(t *testing.T) {
	for want, f := range map[string]float32{
		"0.1": 0.1, "3.4028235e+38": math.MaxFloat32, "1e-45": math.SmallestNonzeroFloat32, "16777216": 1 << 24,
		"0.000001": 1e-6, "1e-7": 1e-7, "1e+21": 1e21, "123456790": 123456789,
	} {
		if got, err := Value(f, Limits{}); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		got, err := Value(f, Limits{})
		if err != nil {
			return
		}
		back, err := strconv.ParseFloat(string(got), 32)
		if err != nil || float32(back) != f {
			t.Fatalf("%s reads back as %v, want %v", got, back, f)
		}
		if again, err := Raw(got, Limits{}); err != nil || string(again) != string(got) {
			t.Fatalf("%s is not its own canonical form: %s, %v", got, again, err)
		}
	})
}

// Any double: the spelling reads back as the same double, and equals one made from its shortest digits by the text of
// ECMA-262, Number to string, step by step.
func TestNumbersFollowECMAScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(
			rapid.Float64(),
			rapid.Map(rapid.Uint64(), math.Float64frombits),
			rapid.Map(rapid.Int64(), func(i int64) float64 { return float64(i) }),
			rapid.Map(rapid.Float64Range(-2e21, 2e21), math.Trunc),
			rapid.Float64Range(-1e-5, 1e-5),
		).Draw(t, "f")
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return
		}
		got := string(appendNumber(nil, f, 64))
		if back, err := strconv.ParseFloat(got, 64); err != nil || back != f {
			t.Fatalf("%s reads back as %v, want %v", got, back, f)
		}
		if want := ecmaNumber(f); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		form, err := Value(f, Limits{})
		if beyond := math.Abs(f) > maxInteger && !strings.ContainsAny(got, ".e"); beyond != (err != nil) {
			t.Fatalf("%s: %v", got, err)
		} else if !beyond && string(form) != got {
			t.Fatalf("Value wrote %s, want %s", form, got)
		}
	})
}

// ecmaNumber lays out k digits whose value is 0.digits × 10^n.
func ecmaNumber(f float64) string {
	if f == 0 {
		return "0"
	}
	if f < 0 {
		return "-" + ecmaNumber(-f)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	e, _ := strconv.Atoi(exponent)
	k, n := len(digits), e+1
	switch {
	case k <= n && n <= 21:
		return digits + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return digits[:n] + "." + digits[n:]
	case -6 < n && n <= 0:
		return "0." + strings.Repeat("0", -n) + digits
	}
	sign := "+"
	if n-1 < 0 {
		sign = "-"
	}
	tail := "e" + sign + strconv.Itoa(max(n-1, 1-n))
	if k == 1 {
		return digits + tail
	}
	return digits[:1] + "." + digits[1:] + tail
}
