import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { maskedText, withoutSignatures } from "../../src/api/masked-text.ts";

const secret = "hunter2hunter2";
const long = "abcdefghijklmnopqrstuvwxyz0123456789";
const within = (depth: number, value: unknown): string =>
  depth === 0 ? JSON.stringify(value) : within(depth - 1, { arguments: JSON.stringify(value) });

describe("a text about where files come from", () => {
  it("keeps no query and no user of a web address, and the rest as it was", () => {
    for (const [text, shown] of [
      ["https://s3.example/b/m.gguf?X-Amz-Signature=abc&x=%2F", "https://s3.example/b/m.gguf?***"],
      ["https://ada:pass@files.example/m.gguf", "https://files.example/m.gguf"],
      [
        '"https://a.example/x?sig=1" changes: see https://b.example/y',
        '"https://a.example/x?***" changes: see https://b.example/y',
      ],
      ["hf://owner/repo/m.gguf@main", "hf://owner/repo/m.gguf@main"],
      ["file:///models/what?.gguf", "file:///models/what?.gguf"],
      ["https://a.example/m@v1.gguf", "https://a.example/m@v1.gguf"],
    ] as const)
      assert.equal(withoutSignatures(text), shown);
  });
});

describe("a text with secrets", () => {
  it("has the value of a secret field masked at any depth of JSON, and the rest as it was", () => {
    for (const value of [secret, 'with a " and a \\ in it, and at its end \\', 'ends with a quote"', ""])
      for (let depth = 0; depth < 4; depth += 1) {
        const [before, after] = [{ path: "a\\b", n: 'say "x"' }, { query: "what else?" }];
        const text = (shown: string): string => within(depth, { ...before, api_key: shown, ...after });
        assert.equal(maskedText(text(value)), text("***"), `${value} at depth ${depth}`);
      }
  });

  for (const [text, masked] of [
    ["DB_PASSWORD=hunter2 and more", "DB_PASSWORD=*** and more"],
    ["export HF_TOKEN='a b c'; run", "export HF_TOKEN='***'; run"],
    ['password = "two words"\nport = 5432', 'password = "***"\nport = 5432'],
    ["password: hunter2\nuser: me", "password: ***\nuser: me"],
    ["x-api-key: hunter2", "x-api-key: ***"],
    ["accessToken: hunter2", "accessToken: ***"],
    ["--api-key=hunter2 --port=1", "--api-key=*** --port=1"],
    [
      String.raw`{"content":"FOO=1\nDB_PASSWORD=hunter2\nBAR=2"}`,
      String.raw`{"content":"FOO=1\nDB_PASSWORD=***\nBAR=2"}`,
    ],
    [String.raw`{"content":"a\npassword: hun\\ter2\nb"}`, String.raw`{"content":"a\npassword: ***\nb"}`],
    ["{'token': 'hunter2', 'n': 1}", "{'token': '***', 'n': 1}"],
    ['{"token":"cut off at the end of what is ke', '{"token":"***'],
    [`key AIzaSy${long} and`, "key *** and"],
    [`gsk_${long}`, "***"],
    [`at eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.${long}-_ here`, "at *** here"],
    [`a\n-----BEGIN RSA PRIVATE KEY-----\n${long}\n${long}\n-----END RSA PRIVATE KEY-----\nb`, "a\n***\nb"],
    [String.raw`{"k":"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"}`, String.raw`{"k":"***\n"}`],
    ["-----BEGIN OPENSSH PRIVATE KEY-----\ncut", "***"],
    ["postgres://me:hunter2@host/db and http://host:80/@x", "postgres://me:***@host/db and http://host:80/@x"],
  ] as const)
    it(`is ${JSON.stringify(masked)} where it was ${JSON.stringify(text.slice(0, 40))}`, () =>
      assert.equal(maskedText(text), masked));

  it("has a key masked after any character, as JSON and addresses have it", () => {
    const keys = ["sk-proj-", "ghp_", "AKIA", "hf_", "xoxb-", "svc_yn22t8mi.", "AIza"].map((prefix) => prefix + long);
    keys.push(`eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.${long}`, `Bearer ${long}`);
    for (const key of keys)
      for (const before of ["", " ", "\n", "\t", "\r", "\f", "\u201c", "\u00a0", "😀", "é"]) {
        const shown = (text: string): void => assert.ok(!maskedText(text).includes(long), text);
        for (let depth = 0; depth < 3; depth += 1) {
          const text = within(depth, { content: `my key:${before}${key}` });
          shown(text);
          // As Python's `json` writes it.
          shown(text.replaceAll(/[^\x20-\x7e]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`));
        }
        shown(encodeURIComponent(`my key:${before}${key}`));
      }
  });

  it("leaves what only looks a little like it", () => {
    for (const text of [
      '{"max_tokens":5,"stop":["token:","x"],"tokenizer":"a"}',
      "the token or the password? a keyboard: what a secret",
      'TOKENIZERS_PARALLELISM=1 MAX_TOKENS=5 {"tokens":"5"}',
      "a task-force-of-many, sk-short, eyJust a word",
      '{"password":{"type":"string"},"token":null}',
    ])
      assert.equal(maskedText(text), text);
  });

  it("takes no longer than its length asks for, whatever it is", () => {
    const size = 200_000;
    const pieces = [
      ["\\", '"', '\\"', "a-", "token", "_token", "eyJ-", "eyJaaaaaaaaa.", "eyJaaaaaaaaa-", "sk-", " ", "["],
      ["Bearer ", "Bearer\n", "password:", "password=", 'password":', "password='", "password:\\\\"],
      ['"token":"', '\\"token\\":\\"', 'token\\"'],
      ["-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END "],
    ];
    for (const piece of pieces.flat()) {
      for (const [start, end] of [
        ["", ""],
        ['{"token":"', ""],
        ["-----BEGIN PRIVATE KEY-----", "x"],
        ["password: ", "!"],
        ["eyJ", "."],
      ] as const) {
        const text = start + piece.repeat((start === "" ? size : size / 5) / piece.length) + end;
        // Quadratic time would be minutes.
        maskedText(text);
      }
    }
  });
});
