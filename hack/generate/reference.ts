import { z } from "zod";
import { configShape, environmentName, tomlName, type ConfigKey } from "../../src/api/config.ts";
import { errorTable, errorType } from "../../src/api/errors.ts";
import { apiVersion, directoryOfKind, kinds, type Kind } from "../../src/api/names.ts";
import { isAvailable, slotStates, transitions } from "../../src/api/states.ts";
import { snakeCase } from "../../src/store/files/spelling.ts";
import { isFree, isMap, readSchema, type JsonSchema } from "./json-schema.ts";
import { resources } from "./resources.ts";

/** docs/reference.md: every field, setting, state and error code, read from the code that defines them. */
export function reference(): string {
  return [
    "<!-- Written by hack/generate.ts from src/api; change it there and run `make generate`. -->",
    "# Reference",
    `Resources are of group and version \`${apiVersion}\`. YAML and CRDs spell fields in camelCase, TOML in snake_case; below \`env\`, \`labels\`, \`annotations\`, \`headers\`, \`request.set\` and a Model's \`default\` names are yours and are never converted. An unknown field is an error that names file, line and column. Defaults that depend on the slot's name or engine are told in the text.`,
    ...kinds.flatMap(kindSection),
    "## Settings",
    "Environment wins over `berth.toml` in the configuration directory, that over the default. An empty variable counts as absent. `SVC_CONFIG_DIR` (environment only) names the configuration directory: `/etc/berth` as root, else `berth` in the XDG configuration directory; `SVC_URL` and `SVC_TOKEN` are read by the command line only. A bad value, or an unknown `SVC_` key close to a known one, stops the start.",
    table(["Environment", "berth.toml", "Type", "Default", "Meaning"], settings()),
    "## States",
    "What may follow each state of a slot; nothing else does. `serving` and `idle` are told apart by the gateway, from its own requests.",
    table(
      ["State", "Serves", "May be followed by"],
      slotStates.map((state) => [
        code(state),
        isAvailable(state) ? "yes" : "no",
        transitions[state].map(code).join(" "),
      ]),
    ),
    "## Errors",
    'Every answer that is not 2xx carries `{"error": {"code", "message", "type", "details"?}}`. Code and status are stable, the message is not. `dispatch.rejected` keeps the status that the engine answered with.',
    table(
      ["Code", "Status", "Type", "Default message"],
      Object.entries(errorTable).map(([name, [status, message]]) => [
        code(name),
        String(status),
        code(errorType(status)),
        message,
      ]),
    ),
  ].join("\n\n");
}

function kindSection(kind: Kind): string[] {
  const { description, schema } = resources[kind];
  return [
    `## ${kind}`,
    `${description} Files: \`${directoryOfKind[kind]}/<name>.toml\`, \`.yaml\` or \`.yml\`.`,
    table(["Field", "In TOML", "Type", "Default", "Meaning"], fieldRows(readSchema(schema, "input"))),
  ];
}

interface FieldOf {
  readonly path: string;
  readonly toml: string;
}

function fieldRows(schema: JsonSchema, base: FieldOf = { path: "", toml: "" }): string[][] {
  return propertiesOf(schema).flatMap(({ name, inner, isRequired }) => {
    const at = { path: `${base.path}${name}`, toml: `${base.toml}${snakeCase(name)}` };
    const nested = isMap(inner) ? [] : fieldRows(inner, { path: `${at.path}.`, toml: `${at.toml}.` });
    const listed =
      inner.items?.properties === undefined
        ? []
        : fieldRows(inner.items, { path: `${at.path}[].`, toml: `${at.toml}[].` });
    const isGroup = nested.length > 0 && inner.description === undefined;
    const fallback = isRequired ? "required" : nested.length > 0 ? "" : shown(inner.default);
    const row = [code(at.path), code(at.toml), typeOf(inner), fallback, inner.description ?? ""];
    return [...(isGroup ? [] : [row]), ...nested, ...listed];
  });
}

function propertiesOf(schema: JsonSchema): { name: string; inner: JsonSchema; isRequired: boolean }[] {
  const found = new Map<string, { name: string; inner: JsonSchema; isRequired: boolean }>();
  for (const branch of schema.anyOf ?? [schema]) {
    for (const [name, inner] of Object.entries(branch.properties ?? {})) {
      const known = found.get(name)?.inner.enum;
      const merged = known === undefined ? inner : { ...inner, enum: [...known, ...(inner.enum ?? [])] };
      const isRequired = (schema.anyOf ?? [schema]).every((one) => one.required?.includes(name) === true);
      found.set(name, { name, inner: merged, isRequired });
    }
  }
  return [...found.values()];
}

function settings(): string[][] {
  const { properties = {} } = readSchema(z.strictObject(configShape), "input");
  const rows: string[][] = [];
  let key: ConfigKey;
  for (key in configShape) {
    const schema = properties[key] ?? {};
    // Text forms exist for the environment; TOML files use the first alternative.
    const type = typeOf(schema.anyOf?.[0] ?? schema);
    const fallback: unknown = configShape[key].safeParse(undefined).data;
    rows.push([code(environmentName(key)), code(tomlName(key)), type, shown(fallback), schema.description ?? ""]);
  }
  return rows;
}

function typeOf(schema: JsonSchema): string {
  if (schema.enum !== undefined) return schema.enum.map(code).join(" ");
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  if (isFree(schema)) return "any JSON";
  if (schema.type === "array") {
    const item = schema.items ?? {};
    return item.enum === undefined ? `list of ${typeOf(item)}` : `list of: ${typeOf(item)}`;
  }
  if (typeof schema.additionalProperties === "object") return `map of ${typeOf(schema.additionalProperties)}`;
  const low = schema.minimum;
  const high = schema.maximum;
  const range = high !== undefined ? ` ${low ?? ""}–${high}` : low !== undefined ? ` ≥ ${low}` : "";
  return `${schema.type ?? "any"}${schema.exclusiveMinimum === undefined ? range : ` > ${schema.exclusiveMinimum}`}`;
}

function shown(value: unknown): string {
  if (value === undefined || value === "") return "";
  const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return isEmpty ? "" : code(JSON.stringify(value));
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map(tableLine).join("\n");
}

function tableLine(cells: readonly string[]): string {
  return `| ${cells.map(cellText).join(" | ")} |`;
}

/** Keeps `|` from ending a cell, and `<state>` outside of code from being an HTML element, which no reader would see. */
function cellText(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll(/(`[^`]*`)|</g, (_, inCode?: string) => inCode ?? "&lt;");
}
