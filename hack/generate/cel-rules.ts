import { builtinSlots, slotNameSchema, type EngineKind, type Kind } from "../../src/api/names.ts";
import { capabilitiesOfEngine, defaultEngine, enginesOfBuiltin, replaceableEngines } from "../../src/api/slot.ts";
import { secretHeaders } from "../../src/api/upstream.ts";
import { readSchema } from "./json-schema.ts";

export interface CelRule {
  readonly rule: string;
  /** Fixed words, or CEL that makes them of the object's values. */
  readonly message?: string;
  readonly messageExpression?: string;
  readonly fieldPath?: string;
}

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(", ");

/** Built-in slots whose default engine is not llama. */
const byName = builtinSlots.filter((name) => defaultEngine(name) !== ("llama" satisfies EngineKind));
const engine = `(has(self.spec.engine) ? self.spec.engine : ${byName
  .map((name) => `self.metadata.name == '${name}' ? '${defaultEngine(name)}' : `)
  .join("")}'llama')`;

const slotName = readSchema(slotNameSchema, "input").pattern ?? "";

/**
 * The rules of `slotRules`, `modelRules`, `upstreamRules` and `slotGroupRules` in CEL, by kind and by the path of the rule: the API
 * server refuses what the operator would report as InvalidSpec. Only the root knows `metadata.name`.
 */
export const celRules: Readonly<Record<Kind, Readonly<Record<string, readonly CelRule[]>>>> = {
  Slot: {
    "": [
      {
        rule: `self.metadata.name.matches('${slotName}')`,
        messageExpression: `'"' + self.metadata.name + '" is not a slot name: 1 to 32 lower-case letters, digits and dashes'`,
        fieldPath: ".metadata.name",
      },
      ...builtinSlots.map((name) => ({
        rule: `self.metadata.name != '${name}' || ${engine} in [${quoted(enginesOfBuiltin[name])}]`,
        messageExpression: `'slot ${name} runs ${enginesOfBuiltin[name].join(", ")}, not ' + ${engine}`,
        fieldPath: ".spec.engine",
      })),
      ...Object.entries(capabilitiesOfEngine).map(([kind, allowed]) => ({
        rule: [
          `!has(self.spec.capabilities) || ${engine} != '${kind}'`,
          ...(replaceableEngines.some((replaceable) => replaceable === kind) ? ["has(self.spec.command)"] : []),
          `self.spec.capabilities.all(c, c in [${quoted(allowed)}])`,
        ].join(" || "),
        messageExpression: `'the ${kind} engine has no ' + self.spec.capabilities.filter(c, !(c in [${quoted(allowed)}]))[0] + ', only ${allowed.join(", ")}'`,
        fieldPath: ".spec.capabilities",
      })),
      {
        rule: `!has(self.spec.model.rerank) || ${engine} == 'llama'`,
        message: "only a llama slot runs a second process for reranking",
        fieldPath: ".spec.model.rerank",
      },
      {
        rule: `!has(self.spec.model.keepContext) || (${engine} == 'llama' && !has(self.spec.command))`,
        message: "only llama-server, as Berth starts it, can keep its context",
        fieldPath: ".spec.model.keepContext",
      },
      {
        rule: `!has(self.spec.program) || (${engine} == 'llama' && !has(self.spec.command) && !has(self.spec.image) && self.spec.runtime in ['auto', 'process'])`,
        message: "is for a llama slot that runs as a process, without command and image",
        fieldPath: ".spec.program",
      },
      {
        rule: "!(self.metadata.name in self.spec.aliases)",
        messageExpression: `self.metadata.name + " is already the slot's own name"`,
        fieldPath: ".spec.aliases",
      },
    ],
    spec: [
      {
        rule: "!self.enabled || !has(self.engine) || self.engine != 'custom' || has(self.command) || has(self.image)",
        message: "a custom engine needs command, or image for containers",
        fieldPath: ".command",
      },
      {
        rule: "!self.enabled || has(self.model.default) || (has(self.engine) && self.engine == 'custom')",
        message: "an enabled slot needs the model it holds",
        fieldPath: ".model.default",
      },
      {
        rule: "self.load != 'always' || !self.pinned || has(self.group)",
        message: "pinned says something only within a group",
        fieldPath: ".pinned",
      },
    ],
  },
  Model: {
    spec: [
      { rule: "has(self.source) || has(self.files)", message: "a model needs source or files", fieldPath: ".source" },
      {
        rule: "!has(self.source) || !has(self.files)",
        message: "source and files exclude each other",
        fieldPath: ".files",
      },
    ],
  },
  Upstream: {
    spec: [
      {
        rule: "self.models.size() > 0 || has(self.discover)",
        message: "an upstream needs models, discover, or both",
        fieldPath: ".models",
      },
    ],
    "spec.headers": [
      {
        rule: `!self.exists(name, name.lowerAscii() in [${quoted(secretHeaders)}])`,
        message: "a key belongs in auth.valueFrom",
      },
    ],
    "spec.baseUrl": [
      { rule: "self.matches('^https?://')", message: "must be an http or https address" },
      { rule: "!self.matches('^https?://[^/]*@')", message: "credentials belong in auth.valueFrom" },
    ],
    "spec.auth": [
      { rule: "self.type == 'none' || has(self.valueFrom)", message: "is required", fieldPath: ".valueFrom" },
      {
        rule: "self.type != 'none' || !has(self.valueFrom)",
        message: "unknown key: none takes no valueFrom",
        fieldPath: ".valueFrom",
      },
      { rule: "self.type != 'header' || has(self.header)", message: "is required", fieldPath: ".header" },
      {
        rule: "self.type == 'header' || !has(self.header)",
        message: "unknown key: only type header has a header",
        fieldPath: ".header",
      },
    ],
  },
  SlotGroup: {
    "spec.budget": [
      {
        rule: "[has(self.slots), has(self.memoryBytes), has(self.device)].filter(given, given).size() <= 1",
        message: "a budget has one kind: a number of slots, a number of bytes, or a device",
      },
    ],
  },
};
