import { parse, relative } from "node:path";
import { setImmediate } from "node:timers/promises";
import { ApiError } from "../../api/errors.ts";
import { directoryOfKind, type Kind } from "../../api/names.ts";
import { errorCode } from "../../lib/error-code.ts";
import { isRecord } from "../../lib/record.ts";
import { parseDocuments } from "../files/documents.ts";
import { isFullManifest } from "../files/field-place.ts";
import { listManifests } from "../files/listing.ts";
import { manifestLimitBytes } from "../files/manifest-limit.ts";
import { readManifestText, whyUnread } from "../files/manifest-text.ts";
import { readManifests, type Declaration } from "../files/manifest.ts";
import { differences, type FieldChange } from "./difference.ts";

type Spec = Readonly<Record<string, unknown>>;

/** The place where a resource is declared. */
export interface Place {
  readonly file: string;
  readonly text: string;
  readonly declaration: Declaration;
  /** The document's number among those of the file, and their count. */
  readonly index: number;
  readonly count: number;
  readonly isManifest: boolean;
  /** The file's own fields, without defaults. */
  readonly spec: Spec;
}

/** The first declaration of this name, in the order of paths. */
export async function findPlace(configDir: string, kind: Kind, name: string): Promise<Place | undefined> {
  const listing = await listManifests(configDir, Object.values(directoryOfKind));
  for (const [file, { sizeBytes }] of listing.files) {
    if (sizeBytes > manifestLimitBytes) {
      if (parse(file).name !== name) continue;
      const message = `${relative(configDir, file)} is too large for a manifest: change it by hand`;
      throw new ApiError("config.invalid", { message });
    }
    // A gateway reads them between its requests.
    await setImmediate();
    let text: string;
    try {
      text = readManifestText(file);
    } catch (error) {
      // What it declares under other names concerns no other file.
      if (parse(file).name !== name || errorCode(error) === "ENOENT") continue;
      const remedy = errorCode(error) === undefined ? "" : ": let the user of Berth read it";
      const message = `${relative(configDir, file)} ${whyUnread(error)}${remedy}`;
      throw new ApiError("config.read_only", { message, cause: error });
    }
    const declarations = readManifests(file, text);
    const index = declarations.findIndex((each) => each.kind === kind && each.name === name);
    const declaration = declarations[index];
    if (declaration === undefined) continue;
    const value = valuesOf(file, text)?.[index];
    const document = isRecord(value) ? value : {};
    const isManifest = isFullManifest(document);
    return {
      file,
      text,
      declaration,
      index,
      count: declarations.length,
      isManifest,
      spec: specOf(document, isManifest),
    };
  }
  return undefined;
}

/** The values of a file's documents; undefined when it does not parse. */
export function valuesOf(file: string, text: string): readonly unknown[] | undefined {
  const parsed = parseDocuments(file, text);
  return "documents" in parsed ? parsed.documents.map(({ value }) => value) : undefined;
}

function specOf(document: Spec, isManifest: boolean): Spec {
  if (isManifest) return isRecord(document["spec"]) ? document["spec"] : {};
  const { labels: _labels, annotations: _annotations, ...spec } = document;
  return spec;
}

/** The fields of the file to change for this spec, and for these labels where they are given. */
export function changesAt(place: Place, spec: Spec, labels?: Readonly<Record<string, string>>): FieldChange[] {
  const { isManifest, declaration } = place;
  const changes = differences(place.spec, spec, isManifest ? ["spec"] : []);
  if (labels !== undefined)
    changes.push(...differences(declaration.labels, labels, isManifest ? ["metadata", "labels"] : ["labels"]));
  return changes;
}
