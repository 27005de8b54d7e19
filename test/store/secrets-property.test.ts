import assert from "node:assert/strict";
import { it } from "node:test";
import { loadConfig } from "../../src/api/config.ts";
import { parseBerthToml } from "../../src/store/files/berth-toml.ts";
import { readManifests } from "../../src/store/files/manifest.ts";
import { fc } from "../support/fast-check.ts";

const secret = "sk-c4n4ryXQ7canaryZJ";
/** Any such piece of it would tell a part. */
const pieces = Array.from({ length: secret.length - 5 }, (_, at) => secret.slice(at, at + 6));

const texts: Readonly<Record<string, string>> = {
  "slots/coder.toml": `engine = "custom"\n[env]\nPLAIN = "${secret}"\nLIST = ["${secret}"]\n[model]\ndefault = "m"\n`,
  "slots/coder.yaml": `engine: custom\nenv:\n  PLAIN: ${secret}\n  QUOTED: "${secret}"\nmodel:\n  default: m\n`,
  "upstreams/acme.yaml": `baseUrl: https://x:${secret}@example.com/v1\nauth: {type: bearer, value: ${secret}}\nheaders:\n  x-api-key: ${secret}\n`,
  "berth.toml": `port = 8080\nadmin_password = "${secret}"\nhost = "127.0.0.1"\n`,
};

/** What is said of the text, without the keys that it is said of: a key is no secret. */
function complaints(file: string, text: string): readonly string[] {
  if (file !== "berth.toml")
    return readManifests(file, text).flatMap(({ diagnostics }) =>
      diagnostics.map(({ message, path = [] }) =>
        path.reduce<string>((said, key) => said.replace(String(key), ""), message),
      ),
    );
  const { values, diagnostics } = parseBerthToml(file, text);
  const places = { isRoot: false, home: "/nowhere", xdgConfigHome: undefined, xdgStateHome: undefined };
  const { problems } = loadConfig({}, values, places);
  return [...diagnostics, ...problems].map(({ message }) => message);
}

const marks = "\n\"':{}[]=#&*!|\t\\,5";
const edit = fc.record({
  at: fc.nat(400),
  remove: fc.nat(3),
  insert: fc.constantFrom("", "", ": ", ...marks.split("")),
});

it("no problem of a broken file repeats a value that may be a secret", () => {
  let told = 0;
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.keys(texts)),
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      (file, edits) => {
        let text = texts[file] ?? "";
        for (const { at, remove, insert } of edits) {
          const place = at % (text.length + 1);
          text = text.slice(0, place) + insert + text.slice(place + remove);
        }
        const said = complaints(file, text).join("\n");
        if (said !== "") told += 1;
        for (const piece of pieces) assert.ok(!said.includes(piece), `${said}\n${text}`);
      },
    ),
  );
  assert.ok(told > 30, `${told} of them were wrong at all`);
});
