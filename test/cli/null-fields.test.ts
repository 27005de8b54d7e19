import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { apiRoutes, type ApiRoutes } from "../../src/api/management/routes.ts";
import { isRecord } from "../../src/lib/record.ts";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { refused } from "./fixture.ts";

/** Every text of an answer: also a name, and a time. */
const text = "2026-01-01T00:00:00.000Z";

/** A value with every field that a JSON Schema has; of several forms or words the last one. */
function whole(schema: unknown): unknown {
  if (!isRecord(schema)) return text;
  const { anyOf, oneOf, enum: words, const: only, properties, items, additionalProperties: more, type } = schema;
  const forms = [anyOf, oneOf].find(Array.isArray)?.filter((form) => isRecord(form) && form["type"] !== "null");
  if (forms !== undefined) return whole(forms.at(-1));
  if (Array.isArray(words)) return words.at(-1);
  if (only !== undefined) return only;
  if (type === "array") return [whole(items)];
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") return 1;
  if (isRecord(properties))
    return Object.fromEntries(Object.entries(properties).map(([key, field]) => [key, whole(field)]));
  return type === "object" ? { [text]: whole(more) } : text;
}

/** The value once for each of its fields, at any depth, with null in place of that field. */
function nulled(value: unknown): { readonly field: string; readonly answer: unknown }[] {
  if (Array.isArray(value))
    return value.flatMap((item, at) =>
      nulled(item).map(({ field, answer }) => ({ field: `[].${field}`, answer: value.with(at, answer) })),
    );
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) => [
    { field: key, answer: { ...value, [key]: null } },
    ...nulled(part).map(({ field, answer }) => ({ field: `${key}.${field}`, answer: { ...value, [key]: answer } })),
  ]);
}

function answerOf(route: keyof ApiRoutes): object {
  const shape = Object.values(apiRoutes[route].answers).find((each) => each instanceof z.ZodType);
  const answer = shape === undefined ? {} : whole(z.toJSONSchema(shape, { unrepresentable: "any" }));
  return isRecord(answer) ? answer : {};
}

describe("a field that is null where this version knows none", () => {
  const at = encodeURIComponent(text);
  const slots = { "/api/slots": "listSlots" } as const;
  const groups = { "/api/groups": "listGroups" } as const;
  const upstreams = { "/api/upstreams": "listUpstreams" } as const;
  const catalog = { "/api/models/catalog": "modelCatalog" } as const;
  const rows: readonly (readonly [line: string, routes: Readonly<Record<string, keyof ApiRoutes>>])[] = [
    ["status", { ...slots, "/api/status": "status", "/api/health/system": "health" }],
    ["slot list -o wide", slots],
    ["slot list -o name", slots],
    [`slot show ${text}`, { [`/api/slots/${at}`]: "getSlot" }],
    [`slot plan ${text}`, { [`/api/slots/${at}/plan`]: "planSlot" }],
    ["upstream list -o wide", upstreams],
    [`upstream show ${text}`, upstreams],
    [`upstream check ${text}`, { ...upstreams, [`/api/upstreams/${at}/check`]: "checkUpstream" }],
    ["group list", groups],
    [`group show ${text}`, groups],
    [`lend 2h --group ${text}`, { ...groups, [`/api/groups/${at}/lend`]: "lendGroup" }],
    ["model list -o wide", { "/api/models": "listModels" }],
    [`model show ${text}`, { [`/api/models/${at}`]: "getModel" }],
    ["model catalog -o wide", catalog],
    [`model show ${text}`, catalog],
    ["model scan /models", { "/api/models/scan": "scanModels" }],
    ["model gc", { "/api/models/gc": "collectModels" }],
    [`model rm ${text} --files --yes`, { [`/api/models/${at}?files=1`]: "deleteModel" }],
    ["probe -o wide", { "/api/hardware/probe?wait=settled&timeout=30": "probeHardware" }],
    ["pull list -o wide", { "/api/pulls": "listPulls" }],
    ["pull list", { "/api/pulls": "listPulls" }],
  ];
  for (const [line, routes] of rows)
    it(`is printed as nothing known, or named as missing: berth ${line.replaceAll(text, "NAME")}`, async () => {
      const answers = Object.fromEntries(Object.entries(routes).map(([path, route]) => [path, answerOf(route)]));
      // The catalogue is read for a model that is not known.
      const unknown = { [`/api/models/${at}`]: refused(404, "model.not_found", "there is no such model") };
      await using api = await apiDouble({ ...unknown, ...answers });
      const run = async (field: string): Promise<void> => {
        const said = await runBerth(line.split(" "), { SVC_URL: api.url }).catch((error: unknown) =>
          assert.fail(`${field}: ${String(error)}`),
        );
        // A value without a form of its own is JSON.
        const words = `${said.stdout}${said.stderr}`.replaceAll(/\{.*\}/g, "");
        assert.doesNotMatch(words, /undefined|NaN|Invalid Date|\bnull\b/, field);
      };
      await run("none");
      for (const [path, known] of Object.entries(answers))
        for (const { field, answer } of nulled(known)) {
          assert.ok(isRecord(answer));
          api.answer(path, answer);
          await run(field);
          api.answer(path, known);
        }
    });
});
