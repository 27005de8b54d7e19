import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { edit } from "../../../src/store/edit/edit.ts";
import type { FieldChange } from "../../../src/store/edit/difference.ts";

const lines = (...text: string[]): string => `${text.join("\n")}\n`;
const set = (path: string, value: unknown): FieldChange => ({ path: path.split("."), value });
const remove = (path: string): FieldChange => ({ path: path.split("."), value: undefined });

interface Case {
  readonly title: string;
  readonly changes: readonly FieldChange[];
  readonly before: string;
  readonly after: string;
  readonly document?: number;
}

const tomlCases: readonly Case[] = [
  {
    title: "leaves a byte order mark, CRLF and tabs where they are, and ends the last line before it adds another",
    changes: [set("model.default", "other"), set("enabled", false), set("model.contextSize", 1)],
    before: '\uFEFFload = "always"\r\n[model]\r\n\tdefault = "m"\t# tab',
    after: '\uFEFFload = "always"\r\nenabled = false\r\n[model]\r\n\tdefault = "other"\t# tab\r\ncontext_size = 1\r\n',
  },
  {
    title:
      "swaps values and leaves comments, blanks, spelling and quotes alone; a field is added at the end of its table",
    changes: [set("model.default", "qwen3-8b"), set("group", "it's"), set("model.contextSize", 4096)],
    before: lines(
      "# The chat model of the house.",
      'load   =  "onDemand"  # by request',
      "group = 'a'",
      "",
      "[model]",
      "  # more would not fit",
      "  default =  'qwen3-4b' # the small one",
      "",
      "# Labels.",
      "[labels]",
      'a = "b"',
    ),
    after: lines(
      "# The chat model of the house.",
      'load   =  "onDemand"  # by request',
      'group = "it\'s"',
      "",
      "[model]",
      "  # more would not fit",
      "  default =  'qwen3-8b' # the small one",
      "context_size = 4096",
      "",
      "# Labels.",
      "[labels]",
      'a = "b"',
    ),
  },
  {
    title: "sees dotted keys, and adds one beside them",
    changes: [set("model.default", "other"), set("model.contextSize", 4096), set("idleSeconds", 5)],
    before: lines('model.default = "m" # dotted', "enabled = true", "[labels]", 'a = "b"'),
    after: lines(
      'model.default = "other" # dotted',
      "model.context_size = 4096",
      "enabled = true",
      "idle_seconds = 5",
      "[labels]",
      'a = "b"',
    ),
  },
  {
    title: "edits inline tables in place",
    changes: [set("model.default", "other"), set("model.parallel", 2), remove("model.threads"), set("env.A", "1")],
    before: lines('model = { default = "m", threads = 4 } # one line', "env = {}"),
    after: lines('model = { default = "other", parallel = 2 } # one line', 'env = { A = "1" }'),
  },
  {
    title: "adds a top-level field before the first table, below what heads the file",
    changes: [set("enabled", false)],
    before: lines("#:schema ./slot.json", "# Ours.", "", "# What it holds.", "[model]", 'default = "m"'),
    after: lines(
      "#:schema ./slot.json",
      "# Ours.",
      "",
      "enabled = false",
      "",
      "# What it holds.",
      "[model]",
      'default = "m"',
    ),
  },
  {
    title: "adds maps as tables of their own",
    changes: [set("env", { HTTP_PROXY: "x" }), set("request", { set: { top_k: 3 } }), set("resources.gpus", 1)],
    before: lines("[model]", 'default = "m"'),
    after: lines(
      "[model]",
      'default = "m"',
      "",
      "[env]",
      'HTTP_PROXY = "x"',
      "",
      "[request.set]",
      "top_k = 3",
      "",
      "[resources]",
      "gpus = 1",
    ),
  },
  {
    title: "leaves an empty map behind where the map is to stay",
    changes: [remove("env.A"), remove("model.threads"), remove("labels.a")],
    before: lines("model.threads = 4", "env = { A = '1' }", "", "[labels]", 'a = "b"'),
    after: lines("env = {}", "", "[labels]", "", "[model]"),
  },
  {
    title: "changes lists item by item, comments and lines kept",
    changes: [set("aliases", ["a", "c", "d"]), set("capabilities", ["chat"]), set("args", ["--x"])],
    before: lines('capabilities = ["chat", "vision"]', "args = []", "aliases = [", '  "a", # first', '  "c",', "]"),
    after: lines('capabilities = ["chat"]', 'args = ["--x"]', "aliases = [", '  "a", # first', '  "c", "d",', "]"),
  },
  {
    title: "writes a list of tables anew when one of them changes",
    changes: [set("mounts", [{ source: "/b", target: "/y", readOnly: false }])],
    before: lines("enabled = true", "[[mounts]]", 'source = "/a"', 'target = "/x"', "", "[model]", 'default = "m"'),
    after: lines(
      "enabled = true",
      "",
      "[model]",
      'default = "m"',
      "",
      "[[mounts]]",
      'source = "/b"',
      'target = "/y"',
      "read_only = false",
    ),
  },
];

const yamlCases: readonly Case[] = [
  {
    title: "swaps values and keeps comments, empty lines, order and quotes; fields are added at the end of their maps",
    changes: [
      set("model.default", "qwen3-8b"),
      set("model.projector", "it's"),
      set("group", "on"),
      set("model.contextSize", 4096),
      set("idleSeconds", 5),
    ],
    before: lines(
      "# The chat model of the house.",
      "load:   onDemand  # by request",
      "group: a",
      "",
      "model:",
      "    # more would not fit",
      '    default:  "qwen3-4b"   # the small one',
      "    projector: 'p'",
      "",
      "# Labels.",
      "labels:",
      "  a: b",
    ),
    after: lines(
      "# The chat model of the house.",
      "load: onDemand # by request",
      'group: "on"',
      "",
      "model:",
      "  # more would not fit",
      '  default: "qwen3-8b" # the small one',
      "  projector: 'it''s'",
      "  contextSize: 4096",
      "",
      "# Labels.",
      "labels:",
      "  a: b",
      "idleSeconds: 5",
    ),
  },
  {
    title: "edits flow maps in place",
    changes: [set("model.default", "other"), set("model.parallel", 2), remove("model.threads"), set("env.A", "a, b")],
    before: lines("model: {default: m, threads: 4} # one line", "env: {}"),
    after: lines("model: {default: other, parallel: 2} # one line", 'env: {A: "a, b"}'),
  },
  {
    title: "fills in a key without a value",
    changes: [set("model.default", "m"), set("aliases", ["a", "b"])],
    before: lines("model: # to come", "aliases:", "enabled: true"),
    after: lines("model:", "  # to come", "  default: m", "aliases:", "  - a", "  - b", "enabled: true"),
  },
  {
    title: "changes lists item by item, comments kept",
    changes: [
      set("aliases", ["a", "c", "d"]),
      set("capabilities", ["chat"]),
      set("args", ["--x", "--z"]),
      set("request.strip", ["p", "q"]),
    ],
    before: lines(
      "capabilities: [chat, vision]",
      "args: []",
      "aliases:",
      "- a # first",
      "# then",
      "- b",
      "- c",
      "request:",
      "  strip:",
      "    - q",
    ),
    after: lines(
      "capabilities: [chat]",
      "args: [--x, --z]",
      "aliases:",
      "- a # first",
      "# then",
      "- c",
      "- d",
      "request:",
      "  strip:",
      "  - p",
      "  - q",
    ),
  },
  {
    title: "replaces texts, maps and lists of several lines",
    changes: [set("env.A", "short"), set("env.C", "x\ny"), set("labels", { c: "d" }), set("args", ["--x"])],
    before: lines(
      "env:",
      "  A: |",
      "    one",
      "    two",
      "  B: '1'",
      "  C: c",
      "labels:",
      "  a: b",
      "args:",
      "- --x",
      "- --y",
    ),
    after: lines("env:", "  A: short", "  B: '1'", "  C: |-", "    x", "    y", "labels:", "  c: d", "args:", "- --x"),
  },
  {
    title: "touches one of several documents, empty ones not counted",
    changes: [set("spec.model.default", "other"), set("spec.idleSeconds", 5), set("metadata.labels", { team: "x" })],
    document: 1,
    before: lines(
      "%YAML 1.2",
      "---",
      "# first",
      "kind: Slot",
      "spec: {model: {default: m}}",
      "---",
      "# nothing",
      "---",
      "kind: Slot # second",
      "metadata:",
      "  name: b",
      "spec:",
      "  model: {default: m}",
      "...",
      "---",
      "kind: Slot # third",
    ),
    after: lines(
      "%YAML 1.2",
      "---",
      "# first",
      "kind: Slot",
      "spec: {model: {default: m}}",
      "---",
      "# nothing",
      "---",
      "kind: Slot # second",
      "metadata:",
      "  name: b",
      "  labels:",
      "    team: x",
      "spec:",
      "  model: {default: other}",
      "  idleSeconds: 5",
      "...",
      "---",
      "kind: Slot # third",
    ),
  },
  {
    title: "keeps lines that end as on Windows, and ends the last line that had no end",
    changes: [set("model.default", "other"), set("model.contextSize", 1), set("aliases", ["a"]), remove("idleSeconds")],
    before: "# c\r\nidleSeconds: 5\r\nmodel:\r\n  default: m\r\n\r\nload: always",
    after: "# c\r\nmodel:\r\n  default: other\r\n  contextSize: 1\r\n\r\nload: always\r\naliases:\r\n  - a\r\n",
  },
  {
    title: "keeps the comments above what it removes, and at the end of what it empties",
    changes: [remove("idleSeconds"), remove("labels.a"), set("aliases", ["b"]), set("model", "m")],
    before: lines(
      "# The house.",
      "",
      "# Short.",
      "idleSeconds: 5",
      "# Of the team.",
      "labels:",
      "  # First.",
      "  a: b",
      "  # Last.",
      "model: # to come",
      "  # below",
      "  default: m",
      "aliases:",
      "  # of old",
      "  - a",
      "  - b",
      "# tail",
    ),
    after: lines(
      "# The house.",
      "",
      "# Short.",
      "# Of the team.",
      "labels:",
      "  # First.",
      "  {}",
      "  # Last.",
      "model:",
      "  # to come",
      "  # below",
      "  m",
      "aliases:",
      "  # of old",
      "  - b",
      "",
      "# tail",
    ),
  },
  {
    title: "leaves an anchor and its aliases as they are",
    changes: [set("enabled", false)],
    before: lines("env: &e {A: x} # shared", "podTemplate: {env: *e}", "enabled: true"),
    after: lines("env: &e {A: x} # shared", "podTemplate: {env: *e}", "enabled: false"),
  },
  {
    title: "edits JSON, which is YAML too",
    changes: [set("model.default", "other"), set("aliases", ["b"])],
    before: lines("{", '  "model": { "default": "m" }', "}"),
    after: lines('{ "model": { "default": "other" }, aliases: [ b ] }'),
  },
];

describe("an edit", () => {
  for (const [file, cases] of [
    ["/c/slots/a.toml", tomlCases],
    ["/c/slots/a.yaml", yamlCases],
  ] as const) {
    describe(file.endsWith("toml") ? "of TOML" : "of YAML", () => {
      for (const { title, before, after, changes, document = 0 } of cases) {
        it(title, () => assert.equal(edit(file, before, document, changes), after));
      }
    });
  }

  it("refuses what shares its value with something else", () => {
    const anchored = lines("model: &m", "  default: m", "podTemplate: *m");
    assert.equal(edit("/c/slots/a.yaml", anchored, 0, [set("model.default", "other")]), undefined);
    const alias = lines("group: &g x", "model: {default: *g}");
    assert.equal(edit("/c/slots/a.yaml", alias, 0, [set("group", "y")]), undefined);
    assert.equal(
      edit("/c/slots/a.yaml", alias, 0, [set("model.default", "z")]),
      lines("group: &g x", "model: {default: z}"),
    );
  });

  it("refuses a file that does not parse", () => {
    assert.equal(edit("/c/slots/a.yaml", "model: [", 0, [set("model", {})]), undefined);
    assert.equal(edit("/c/slots/a.toml", "model = = 1", 0, [set("model", {})]), undefined);
  });
});
