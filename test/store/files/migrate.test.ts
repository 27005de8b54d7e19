import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { migrated } from "../../../src/store/files/migrate.ts";

describe("a migrated text", () => {
  const cases: readonly (readonly [what: string, file: string, before: string, after: string])[] = [
    [
      "has TOML keys in snake_case, with comments and order",
      "slots/a.toml",
      '# mine\nidleSeconds = 5 # five\nmodel.contextSize = 9\nmodel.default = "m"\nmounts = [{source = "/a", target = "/b", readOnly = true}]\n[timeoutSeconds]\nfirstByte = 1\n',
      '# mine\nidle_seconds = 5 # five\nmodel.context_size = 9\nmodel.default = "m"\nmounts = [{source = "/a", target = "/b", read_only = true}]\n[timeout_seconds]\nfirst_byte = 1\n',
    ],
    [
      "leaves a person's own names",
      "slots/a.toml",
      '[model]\ndefault = "m"\n[env]\nmyName = "a"\n[labels]\nmyTeam = "b"\n[request.set]\nmaxTokens = 5\n',
      '[model]\ndefault = "m"\n[env]\nmyName = "a"\n[labels]\nmyTeam = "b"\n[request.set]\nmaxTokens = 5\n',
    ],
    [
      "has YAML keys in camelCase",
      "slots/a.yaml",
      "# mine\nidle_seconds: 5\nmodel: {default: m, context_size: 9}\nenv: {MY_NAME: a}\n",
      "# mine\nidleSeconds: 5\nmodel: {default: m, contextSize: 9}\nenv: {MY_NAME: a}\n",
    ],
    [
      "keeps a byte order mark, in TOML",
      "slots/a.toml",
      '\uFEFFidleSeconds = 5\r\n[model]\r\ndefault = "m"\r\n',
      '\uFEFFidle_seconds = 5\r\n[model]\r\ndefault = "m"\r\n',
    ],
    [
      "keeps a byte order mark, in YAML",
      "slots/a.yaml",
      "\uFEFFidle_seconds: 5\r\nmodel: {default: m}\r\n",
      "\uFEFFidleSeconds: 5\r\nmodel: {default: m}\r\n",
    ],
    ["has settings in snake_case", "berth.toml", "holdSeconds = 5\n", "hold_seconds = 5\n"],
    [
      "stays where a key is there in both spellings",
      "slots/a.toml",
      '[model]\ndefault = "m"\ncontextSize = 1\ncontext_size = 2\n',
      '[model]\ndefault = "m"\ncontextSize = 1\ncontext_size = 2\n',
    ],
    ["stays where it does not parse", "slots/a.toml", "idleSeconds = = 5\n", "idleSeconds = = 5\n"],
    ["stays where it does not parse, in YAML", "slots/a.yaml", "idle_seconds: [\n", "idle_seconds: [\n"],
  ];
  for (const [what, file, before, after] of cases) {
    it(what, () => {
      assert.equal(migrated(file, before), after);
      assert.equal(migrated(file, after), after, "and once is enough");
    });
  }
});
