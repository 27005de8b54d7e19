import { builtinSlots, slotNameSchema, type EngineKind } from "../../src/api/names.ts";
import { capabilitiesOfEngine, defaultEngine, enginesOfBuiltin, replaceableEngines } from "../../src/api/slot.ts";
import { readSchema } from "./json-schema.ts";

export interface CelRule {
  readonly rule: string;
  readonly message: string;
  readonly fieldPath?: string;
}

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(", ");

/** Built-in slots whose engine is another than llama when the spec names none. */
const byName = builtinSlots.filter((name) => defaultEngine(name) !== ("llama" satisfies EngineKind));
const engine = `(has(self.spec.engine) ? self.spec.engine : ${byName
  .map((name) => `self.metadata.name == '${name}' ? '${defaultEngine(name)}' : `)
  .join("")}'llama')`;

const slotName = readSchema(slotNameSchema, "input").pattern ?? "";

/**
 * The rules of `slotRules`, `modelRules` and `upstreamRules` in CEL, by kind and by the place they stand at: the API
 * server refuses what the operator would call InvalidSpec. Only the root knows `metadata.name`.
 */
export const celRules: Readonly<Record<"Slot" | "Model" | "Upstream", Readonly<Record<string, readonly CelRule[]>>>> = {
  Slot: {
    "": [
      {
        rule: `self.metadata.name.matches('${slotName}')`,
        message: "a slot's name has 1 to 32 lower-case letters, digits and dashes, none at the ends",
      },
      ...builtinSlots.map((name) => ({
        rule: `self.metadata.name != '${name}' || ${engine} in [${quoted(enginesOfBuiltin[name])}]`,
        message: `slot ${name} runs ${enginesOfBuiltin[name].join(", ")}`,
        fieldPath: ".spec.engine",
      })),
      ...Object.entries(capabilitiesOfEngine).map(([kind, allowed]) => ({
        rule: [
          `!has(self.spec.capabilities) || ${engine} != '${kind}'`,
          ...(replaceableEngines.some((replaceable) => replaceable === kind) ? ["has(self.spec.command)"] : []),
          `self.spec.capabilities.all(c, c in [${quoted(allowed)}])`,
        ].join(" || "),
        message: `the ${kind} engine has only ${allowed.join(", ")}`,
        fieldPath: ".spec.capabilities",
      })),
      {
        rule: `!has(self.spec.model.rerank) || ${engine} == 'llama'`,
        message: "only a llama slot runs a second process for reranking",
        fieldPath: ".spec.model.rerank",
      },
      {
        rule: "!(self.metadata.name in self.spec.aliases)",
        message: "an alias is already the slot's own name",
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
      { rule: "has(self.source) || has(self.files)", message: "a model needs source or files" },
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
    "spec.baseUrl": [
      { rule: "self.matches('^https?://')", message: "must be an http or https address" },
      { rule: "!self.matches('^https?://[^/]*@')", message: "credentials belong in auth.valueFrom" },
    ],
    "spec.auth": [
      { rule: "self.type == 'none' || has(self.valueFrom)", message: "bearer and header need valueFrom" },
      { rule: "self.type != 'none' || !has(self.valueFrom)", message: "none takes no valueFrom" },
      { rule: "(self.type == 'header') == has(self.header)", message: "header is for type header, which needs it" },
    ],
  },
};
