import { basename, dirname, extname } from "node:path";
import { unknownKey } from "../../api/known-keys.ts";
import { apiVersion, directoryOfKind, kinds, slotNameSchema, type Kind } from "../../api/names.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { isRecord } from "../../lib/record.ts";
import { parseDocuments, type ParsedDocument } from "./documents.ts";
import { judgeSpec, notASlotName } from "../judged-spec.ts";
import { isFullManifest } from "./field-place.ts";
import { pathToToml, snakeCase } from "./spelling.ts";
import type { TextPosition } from "./text-position.ts";
import type { Diagnostic, SpecByKind } from "../store.ts";

/** The declaration of one document of a file; without `spec` when it is invalid. */
export interface Declaration {
  readonly kind: Kind;
  readonly name: string;
  readonly file: string;
  readonly spec: SpecByKind[Kind] | undefined;
  readonly specHash: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly diagnostics: readonly Diagnostic[];
  /** The position of its name; absent where the file does not parse. */
  readonly at?: TextPosition | undefined;
  /** The document is of another program, such as a kustomization; its diagnostics say why it declares nothing here. */
  readonly isForeign?: true;
}

const manifestKeys = ["apiVersion", "kind", "metadata", "spec", "status"] as const;

/** Whether a file of that name can declare resources. */
export function isManifestFile(name: string): boolean {
  return /\.(toml|ya?ml)$/.test(name) && !name.startsWith(".");
}

/** The kind of resource in files of this directory, unless the file names another. */
export function kindOfFile(file: string): Kind {
  const directory = basename(dirname(file));
  return kinds.find((kind) => directoryOfKind[kind] === directory) ?? "Slot";
}

/** Everything that a file declares. A file that does not parse declares its own name, without a spec. Never throws. */
export function readManifests(file: string, text: string): Declaration[] {
  const fallback = { kind: kindOfFile(file), name: basename(file, extname(file)) };
  try {
    return declarationsIn(file, text, fallback);
  } catch (error) {
    // Errors that parsers throw beside their own: a stack overflow of deep nesting, an alias within itself.
    const message = error instanceof RangeError ? "is nested too deeply" : "cannot be parsed";
    return [invalid(fallback, file, text, [{ reason: "InvalidSpec", file, message }])];
  }
}

function declarationsIn(file: string, text: string, fallback: { kind: Kind; name: string }): Declaration[] {
  if (text.includes("\0")) {
    const message = "holds a NUL character; save it as UTF-8";
    return [invalid(fallback, file, text, [{ reason: "InvalidSpec", file, message }])];
  }
  const parsed = parseDocuments(file, text);
  if ("problem" in parsed) {
    const { line, column, message } = parsed.problem;
    return [invalid(fallback, file, text, [{ reason: "InvalidSpec", file, ...place({ line, column }), message }])];
  }
  const isOnly = parsed.documents.length === 1;
  return parsed.documents.map((document, index) =>
    declaration(
      document,
      file,
      { ...fallback, name: isOnly ? fallback.name : `${fallback.name}-${index + 1}` },
      !isOnly,
    ),
  );
}

function invalid(id: { kind: Kind; name: string }, file: string, text: string, diagnostics: Diagnostic[]): Declaration {
  return { ...id, file, spec: undefined, specHash: sha256(text), labels: {}, annotations: {}, diagnostics };
}

function place({ line, column }: { line?: number | undefined; column?: number | undefined }): {
  line?: number;
  column?: number;
} {
  return { ...(line === undefined ? {} : { line }), ...(column === undefined ? {} : { column }) };
}

function declaration(
  document: ParsedDocument,
  file: string,
  fallback: { kind: Kind; name: string },
  needsName: boolean,
): Declaration {
  const { value } = document;
  const diagnostics: Diagnostic[] = [];
  const note = (path: readonly PropertyKey[], message: string): void => {
    const plain = path.map((part) => (typeof part === "number" ? part : String(part)));
    const shown = file.endsWith(".toml") ? pathToToml(plain) : plain;
    diagnostics.push({ reason: "InvalidSpec", file, ...place(document.place(path) ?? {}), path: shown, message });
  };
  if (!isRecord(value)) {
    note([], "a manifest is a map of fields");
    return invalid(fallback, file, canonicalJson(value), diagnostics);
  }
  if (isForeign(value)) {
    note(["apiVersion"], `must be ${apiVersion}: the document is of another program`);
    // No resource has this name: nothing finds it.
    return { ...invalid({ ...fallback, name: "" }, file, canonicalJson(value), diagnostics), isForeign: true };
  }
  const isManifest = isFullManifest(value);
  let { kind, name } = fallback;
  let spec: Record<string, unknown> = value;
  let metadata: Record<string, unknown> = {};
  let base: string[] = [];
  if (isManifest) {
    for (const key of Object.keys(value)) {
      if (!manifestKeys.some((known) => known === key)) note([key], unknownKey(key, manifestKeys));
    }
    if (value["apiVersion"] !== apiVersion) note(["apiVersion"], `must be ${apiVersion}`);
    const named = kinds.find((known) => known === value["kind"]);
    if (named === undefined) note(["kind"], `must be one of ${kinds.join(", ")}`);
    else kind = named;
    if (isRecord(value["metadata"])) metadata = value["metadata"];
    else note(["metadata"], "must be a map with a name");
    if (isRecord(value["spec"])) spec = value["spec"];
    else {
      note(["spec"], "must be a map of fields");
      spec = {};
    }
    if (typeof metadata["name"] === "string") name = metadata["name"];
    else if (needsName) note(["metadata", "name"], "a file with several documents names each");
    base = ["spec"];
  } else {
    // Labels and annotations of a flat file are metadata.
    const { labels, annotations, ...rest } = value;
    metadata = { ...(labels === undefined ? {} : { labels }), ...(annotations === undefined ? {} : { annotations }) };
    spec = rest;
    if (needsName) note([], "a file with several documents holds full manifests, each with metadata.name");
  }
  const labels = stringMap(metadata["labels"], () =>
    note([...(isManifest ? ["metadata"] : []), "labels"], "must be a map of texts"),
  );
  const annotations = stringMap(metadata["annotations"], () =>
    note([...(isManifest ? ["metadata"] : []), "annotations"], "must be a map of texts"),
  );
  if (kind === "Slot" && !slotNameSchema.safeParse(name).success) {
    note(isManifest ? ["metadata", "name"] : [], notASlotName(name));
    // An invalid name must not become a key.
    name = fallback.name;
  }
  const spell = file.endsWith(".toml") ? snakeCase : (key: string): string => key;
  const judged = judgeSpec(kind, name, spec, spell);
  for (const { path, message } of judged.problems) note([...base, ...path], message);
  const at = document.place(isManifest ? ["metadata", "name"] : []);
  if (!judged.isWellFormed)
    return { ...invalid({ kind, name }, file, canonicalJson(value), diagnostics), labels, annotations, at };
  const isValid = diagnostics.length === 0;
  return {
    kind,
    name,
    file,
    spec: isValid ? judged.spec : undefined,
    specHash: judged.specHash,
    labels,
    annotations,
    diagnostics,
    at,
  };
}

/** A resource of another API group; a kind of ours with another version is a mistake in a manifest. */
function isForeign({ apiVersion: version, kind }: Readonly<Record<string, unknown>>): boolean {
  const [group] = apiVersion.split("/");
  return typeof version === "string" && !version.startsWith(`${group}/`) && !kinds.some((known) => known === kind);
}

function stringMap(value: unknown, onWrong: () => void): Record<string, string> {
  if (value === undefined) return {};
  if (!isRecord(value) || !Object.values(value).every((inner) => typeof inner === "string")) {
    onWrong();
    return {};
  }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, String(inner)]));
}
