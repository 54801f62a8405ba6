package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/loom-run/loom/config"
	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/core/usage"
	"github.com/loom-run/loom/machine/automation"
)

func builtin(name string) bool { return name == "gpt" }

func dollars(literal string) usage.Amount {
	v, err := jsonv.ParseString(literal)
	if err != nil {
		panic(err)
	}
	a, ok := usage.ParseAmount(v)
	if !ok {
		panic(literal)
	}
	return a
}

func TestAFileIsReadWhole(t *testing.T) {
	got, err := config.Decode([]byte(`
[models.sonnet]
dialect = "anthropic"
model_id = "claude-sonnet-5-5"
api_key_env = "ANTHROPIC_API_KEY"
base_url = "https://proxy.example/anthropic/"
context_window = 1_000_000
max_output_tokens = 128000
thinking = "high"
vision = true
max_images = 20
[models.sonnet.pricing]
input = 3
output = 15.0
cache_read = 0.3
cache_write = 3.75
cache_write_1h = "6.000000000000000001"
[[models.sonnet.pricing.tiers]]
above_input_tokens = 200000
input = 6
output = 22.5

[models.local]
dialect = "openai"
model_id = "qwen"
base_url = "http://localhost:11434/v1"
context_window = 32768
max_output_tokens = 4096
thinking = "unsupported"
vision = false

[models.codex]
dialect = "openai-responses"
auth = "api-key"
model_id = "gpt-codex"
api_key_env = "OPENAI_API_KEY"
context_window = 400000
max_output_tokens = 128000

[roles]
main = ["sonnet", "gpt"]
vision = ["sonnet"]

[profiles.cheap.roles]
main = ["local"]

[secrets.ANTHROPIC_API_KEY]
command = ["pass", "show", "anthropic"]

[retry]
attempts = 4
base_delay_ms = 500
max_delay_ms = 30000

[limits]
connect_ms = 5000
first_byte_ms = 60000
idle_ms = 60000
total_ms = 600000

[telemetry]
endpoint = "http://localhost:4318"
`), builtin)
	if err != nil {
		t.Fatal(err)
	}
	want := config.File{
		Models: []config.Model{
			{Name: "codex", Dialect: config.OpenAIResponses, KeyEnv: "OPENAI_API_KEY", ModelID: "gpt-codex", ContextWindow: 400_000, MaxOutput: 128_000},
			{Name: "local", Dialect: config.OpenAI, BaseURL: "http://localhost:11434/v1", ModelID: "qwen", ContextWindow: 32_768, MaxOutput: 4096, Unthinking: true, Vision: new(false)},
			{
				Name: "sonnet", Dialect: config.Anthropic, BaseURL: "https://proxy.example/anthropic", KeyEnv: "ANTHROPIC_API_KEY", ModelID: "claude-sonnet-5-5",
				ContextWindow: 1_000_000, MaxOutput: 128_000, Thinking: "high", Vision: new(true), MaxImages: 20,
				Pricing: &config.Pricing{
					Rates: config.Rates{Input: dollars("3"), Output: dollars("15"), CacheRead: new(dollars("0.3")), CacheWrite: new(dollars("3.75")), CacheWrite1h: new(dollars("6.000000000000000001"))},
					Tiers: []config.Tier{{Above: 200_000, Rates: config.Rates{Input: dollars("6"), Output: dollars("22.5")}}},
				},
			},
		},
		Roles:     config.Roles{config.Main: {"sonnet", "gpt"}, config.Vision: {"sonnet"}},
		Profiles:  map[string]config.Roles{"cheap": {config.Main: {"local"}}},
		Secrets:   map[string]config.Secret{"ANTHROPIC_API_KEY": {Command: []string{"pass", "show", "anthropic"}}},
		Retry:     config.Retry{Attempts: new(int64(4)), BaseDelayMs: new(int64(500)), MaxDelayMs: new(int64(30_000))},
		Limits:    config.Limits{ConnectMs: new(int64(5000)), FirstByteMs: new(int64(60_000)), IdleMs: new(int64(60_000)), TotalMs: new(int64(600_000))},
		Telemetry: config.Telemetry{Endpoint: "http://localhost:4318"},

		Automation: automation.Settings{Models: automation.Steer},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b usage.Amount) bool { return a.Literal() == b.Literal() })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty, err := config.Decode(nil, builtin)
	if diff := cmp.Diff(config.File{Automation: automation.Settings{Models: automation.Steer}}, empty); err != nil || diff != "" {
		t.Errorf("an empty file: %v\n%s", err, diff)
	}
}

// model is a table with some keys set, or taken away where the value is empty.
func model(changes ...string) string {
	keys := []string{"dialect", "model_id", "context_window", "max_output_tokens"}
	values := map[string]string{"dialect": `"openai"`, "model_id": `"m"`, "context_window": "10", "max_output_tokens": "5"}
	for i := 0; i < len(changes); i += 2 {
		if _, has := values[changes[i]]; !has {
			keys = append(keys, changes[i])
		}
		values[changes[i]] = changes[i+1]
	}
	out := "[models.x]\n"
	for _, k := range keys {
		if values[k] != "" {
			out += k + " = " + values[k] + "\n"
		}
	}
	return out
}

const secret = "sk-pasted-where-it-does-not-belong"

func TestEveryRefusalNamesItsTable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no TOML":                      {"a = \n", "loom.toml is no TOML at line 1, column 5; nothing of it was used"},
		"a key twice":                  {model("dialect", `"openai"`) + "model_id = \"" + secret + "\"\n", "loom.toml is no TOML at line 6"},
		"an unknown table":             {"[model.x]\n", `loom.toml there is no key "model" here; there are roles, profiles, secrets, models, retry, limits, telemetry`},
		"an unknown key":               {model("modelid", `"`+secret+`"`), `loom.toml, [models.x]: there is no key "modelid" here; there are dialect, model_id,`},
		"another case":                 {model("model_id", "", "Model_ID", `"m"`), "[models.x]: model_id is missing"},
		"a key pasted as a key":        {model(`"`+secret+`"`, "1"), `[models.x]: there is no key of 34 characters here`},
		"the key itself":               {model("api_key", `"`+secret+`"`), "[models.x]: api_key has no place in this file"},
		"the key as its variable":      {model("api_key_env", `"`+secret+`"`), "[models.x]: api_key_env must be the name of a variable"},
		"headers":                      {model("headers", `{a = "b"}`), "[models.x]: headers cannot be set"},
		"no dialect":                   {model("dialect", ""), "[models.x]: dialect is missing"},
		"an unknown dialect":           {model("dialect", `"bedrock"`), `[models.x]: dialect must be one of "anthropic", "openai", "openai-responses", "gemini"`},
		"an empty id":                  {model("model_id", `" "`), "[models.x]: model_id must be a text that is not empty"},
		"a window of nothing":          {model("context_window", "0"), "[models.x]: context_window must be a whole number of tokens from 1"},
		"a window below nothing":       {model("context_window", "-5"), "[models.x]: context_window must be a whole number of tokens from 1"},
		"a window in words":            {model("context_window", `"many"`), "[models.x]: context_window must be a whole number of tokens from 1"},
		"no limit of output":           {model("max_output_tokens", ""), "[models.x]: max_output_tokens is missing"},
		"an unknown level":             {model("thinking", `"enormous"`), "[models.x]: thinking must be one of"},
		"vision in words":              {model("vision", `"yes"`), "[models.x]: vision must be true or false"},
		"auth where it is not":         {model("auth", `"api-key"`), "[models.x]: auth is of the dialect openai-responses alone"},
		"no auth where it is":          {model("dialect", `"openai-responses"`), `[models.x]: auth is missing: "api-key"`},
		"a name of the program":        {strings.Replace(model(), "models.x", "models.demo", 1), "[models.demo]: the name demo is taken by the program"},
		"a name that is none":          {strings.Replace(model(), "models.x", `models."a b"`, 1), `[models]: a name of 3 characters is none`},
		"a model that is no table":     {"models = {x = 5}\n", `[models]: "x" must be a table`},
		"a price in part":              {model() + "[models.x.pricing]\ninput = 1\n", "[models.x.pricing]: output is missing: US dollars for a million tokens"},
		"a price below nothing":        {model() + "[models.x.pricing]\ninput = -1\noutput = 1\n", "[models.x.pricing]: input must be US dollars for a million tokens"},
		"a price beyond belief":        {model() + "[models.x.pricing]\ninput = 1e300\noutput = 1\n", "[models.x.pricing]: input must be US dollars"},
		"a price that is no number":    {model() + "[models.x.pricing]\ninput = nan\noutput = 1\n", "[models.x.pricing]: input must be US dollars"},
		"a tier without a size":        {model() + "[models.x.pricing]\ninput = 1\noutput = 1\n[[models.x.pricing.tiers]]\ninput = 2\noutput = 2\n", "[models.x.pricing.tiers]: above_input_tokens is missing"},
		"an unknown key of a tier":     {model() + "[models.x.pricing]\ninput = 1\noutput = 1\n[[models.x.pricing.tiers]]\nabove_input_tokens = 5\ninput = 2\noutput = 2\nfree = true\n", `[models.x.pricing.tiers]: there is no key "free" here`},
		"an unknown role":              {"[roles]\nmain = [\"gpt\"]\nboss = [\"gpt\"]\n", `[roles]: there is no key "boss" here; there are main, subagent, plan, summarize, vision, advisor`},
		"no main role":                 {"[roles]\nplan = [\"gpt\"]\n", "[roles]: main is missing"},
		"a role of nobody":             {"[roles]\nmain = []\n", "[roles]: main must be a list of texts that is not empty"},
		"a role that is no list":       {"[roles]\nmain = \"gpt\"\n", "[roles]: main must be a list of texts"},
		"a model that does not exist":  {"[roles]\nmain = [\"gpt\", \"x\"]\n", `[roles]: main names the model "x", which is neither a table here nor built in`},
		"a model twice":                {"[roles]\nmain = [\"gpt\", \"gpt\"]\n", `[roles]: main names the model "gpt" twice`},
		"a profile's":                  {"[profiles.p.roles]\nmain = [\"x\"]\n", `[profiles.p.roles]: main names the model "x"`},
		"an unknown key of a profile":  {"[profiles.p]\nmodel = 5\n", `[profiles.p]: there is no key "model" here; there is roles`},
		"a secret without a command":   {"[secrets.A]\n", "[secrets.A]: command is missing"},
		"a secret that is a value":     {"[secrets]\nA = \"" + secret + "\"\n", `[secrets]: "A" must be a table`},
		"a command that is a text":     {"[secrets.A]\ncommand = \"pass " + secret + "\"\n", "[secrets.A]: command must be a list of texts"},
		"attempts of nothing":          {"[retry]\nattempts = 0\n", `[retry]: attempts must be a whole number of attempts, or "unbounded", from 1`},
		"a limit in words":             {"[limits]\nidle_ms = \"1m\"\n", "[limits]: idle_ms must be a whole number of milliseconds from 1"},
		"a limit beyond a day":         {"[limits]\ntotal_ms = 999999999999\n", "[limits]: total_ms must be a whole number of milliseconds from 1 to 86400000"},
		"telemetry without a place":    {"[telemetry]\n", "[telemetry]: endpoint is missing"},
		"telemetry with a password":    {"[telemetry]\nendpoint = \"http://a:" + secret + "@h\"\n", "[telemetry]: endpoint must be an http or https address without a user"},
		"telemetry of another kind":    {"[telemetry]\nendpoint = \"grpc://h\"\n", "[telemetry]: endpoint must be an http"},
		"a file that is no such thing": {strings.Repeat("#", 1<<20+1), "loom.toml is larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Decode([]byte(c.text), builtin)
			if err == nil {
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), secret) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("it repeats a value or is more than a line: %s", err)
			}
		})
	}
}

func TestUnboundedAttemptsAreSaidInAWord(t *testing.T) {
	f, err := config.Decode([]byte("[retry]\nattempts = \"unbounded\"\n"), builtin)
	if err != nil || !f.Retry.Unbounded || f.Retry.Attempts != nil {
		t.Errorf("%+v, %v", f.Retry, err)
	}
}

func TestAPriceKeepsEveryDigit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(0, 999_999_999_999).Draw(t, "micros")
		want := usage.Micros(micros)
		f, err := config.Decode([]byte(model()+"[models.x.pricing]\noutput = 1\ninput = "+want.Literal()+"\n"), builtin)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Models[0].Pricing.Rates.Input; got.Cmp(want) != 0 {
			t.Fatalf("%s became %s", want.Literal(), got.Literal())
		}
	})
}

func TestTheExampleOfTheDocumentIsAFile(t *testing.T) {
	page, err := os.ReadFile("../docs/formats/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```toml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the page has no example")
	}
	f, err := config.Decode([]byte(text), func(string) bool { return true })
	if err != nil || len(f.Models) == 0 || f.Roles == nil || len(f.Secrets) == 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(model("api_key_env", `"K"`))
	f.Add("[roles]\nmain = [\"gpt\"]\n[profiles.a.roles]\nmain=[\"gpt\"]\n[secrets.A]\ncommand=[\"x\"]\n")
	f.Add("[models.x.pricing]\ninput = 1e-7\n[[models.x.pricing.tiers]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			t.Skip("larger than worth it")
		}
		file, err := config.Decode([]byte(text), builtin)
		if err != nil {
			if file.Models != nil || file.Roles != nil || err.Error() == "" {
				t.Errorf("%+v and %v", file, err)
			}
			return
		}
		for _, m := range file.Models {
			if m.ContextWindow < 1 || m.MaxOutput < 1 || m.ModelID == "" {
				t.Errorf("a model that cannot be: %+v", m)
			}
		}
	})
}

func TestRulesAndSchedulesAreReadAndBounded(t *testing.T) {
	got, err := config.Decode([]byte(`
[[rule]]
name = "a"
triggers = ["for now", "x"]
body = "no"
[[schedule]]
name = "one"
every_s = 60
body = "b"
[[schedule]]
name = "two"
cron = "0 9 * * 1-5"
utc_offset = "-03:30"
body = "b"
wake = true
target = "side"
max_fires = 2
expires_after_s = 10
[[schedule]]
name = "three"
at = 2027-01-31T09:00:00+01:00
body = "b"
[[schedule]]
name = "four"
at = "2027-01-31T08:00:00Z"
body = "b"
[schedules]
model_created = "wake"
`), builtin)
	if err != nil {
		t.Fatal(err)
	}
	a := got.Automation
	if len(a.Rules) != 1 || len(a.Rules[0].Triggers) != 2 || a.Models != automation.Wake || len(a.Schedules) != 4 {
		t.Fatalf("it is read as %+v", a)
	}
	two := a.Schedules[1]
	if two.When.String() != `at cron "0 9 * * 1-5", UTC-03:30` || !two.Wake || two.Target != "side" || two.MaxFires != 2 || two.LifeMs != 10_000 {
		t.Errorf("two is %+v", two)
	}
	if a.Schedules[2].When != a.Schedules[3].When || a.Schedules[0].Target != "main" || a.Schedules[0].Wake {
		t.Errorf("the others are %+v", a.Schedules)
	}
	if none, err := config.Decode(nil, builtin); err != nil || none.Automation.Models != automation.Steer {
		t.Errorf("an empty file has %+v, %v", none.Automation, err)
	}
	for text, want := range map[string]string{
		"[[rule]]\nname='a'\nbody='b'":                                         "it has 0 triggers",
		"[[rule]]\nname='a b'\ntriggers=['x']\nbody='b'":                       "cannot be taken",
		"[[rule]]\nname='a'\ntriggers=['x']\nbody='b'\nwhen=1":                 "no key",
		strings.Repeat("[[rule]]\nname='a'\ntriggers=['x']\nbody='b'\n", 2):    "two are called",
		strings.Repeat("[[schedule]]\nname='a'\n", 17):                         "at most 16",
		"[[schedule]]\nname='a'\nbody='b'":                                     "0 of them",
		"[[schedule]]\nname='a'\nbody='b'\nevery_s=60\ncron='* * * * *'":       "2 of them",
		"[[schedule]]\nname='a'\nbody='b'\nevery_s=59":                         "cannot be taken",
		"[[schedule]]\nname='a'\nbody='b'\ncron='@daily'":                      "cron",
		"[[schedule]]\nname='a'\nbody='b'\ncron='* * * * *'\nutc_offset='1'":   "utc_offset",
		"[[schedule]]\nname='a'\nbody='b'\nevery_s=60\nutc_offset='+01:00'":    "cron alone",
		"[[schedule]]\nname='a'\nbody='b'\nat=2027-01-31":                      "at must be",
		"[[schedule]]\nname='a'\nbody='b'\nevery_s=60\nexpires_after_s=604801": "expires_after_s",
		"[schedules]\nmodel_created='always'":                                  "model_created",
		"rule = 3":                                                             "list of tables",
	} {
		if _, err := config.Decode([]byte(text), builtin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
