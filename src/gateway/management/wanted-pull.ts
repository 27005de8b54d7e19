import type { IncomingMessage } from "node:http";
import { ApiError } from "../../api/errors.ts";
import type { PullBody } from "../../api/management/pull-views.ts";
import type { ModelRecord, WantedFile } from "../../api/model.ts";
import { modelRefSchema } from "../../api/names.ts";
import { invalidRequest } from "../../api/problems.ts";
import { canonicalJson } from "../../lib/canonical.ts";
import { isInnerHost } from "../../lib/inner-addresses.ts";
import { FetchError } from "../../models/fetch/fetch-error.ts";
import { parseSource } from "../../models/fetch/source.ts";
import { filesOf } from "../../models/fetch/wanted-model.ts";
import { licensesOf, licenseText } from "../../models/licenses.ts";
import type { ManagementContext } from "./context.ts";
import { unknownModel } from "./model-handlers.ts";
import { onlyChoice, type TypedModels } from "./model-choices.ts";

/** A model that a client wants to be fetched. */
export interface Wanted {
  readonly ref: string;
  readonly files: readonly WantedFile[];
  readonly sizeBytes?: number | undefined;
  /** A manifest says where the files come from: it may name a server of this machine. */
  readonly isDeclared?: boolean;
}

/** The circumstances of a request to pull, beside its body. */
interface Asking {
  readonly typed: TypedModels;
  /** Whether the caller may name a server of this machine. */
  readonly isTrusted: boolean;
  readonly client: Pick<IncomingMessage, "socket">;
}

/** The model that the body names. Throws ApiError, also where a typed name stands for several models. */
export async function wantedBy(context: ManagementContext, body: PullBody, asking: Asking): Promise<Wanted> {
  const { model, source, files } = body;
  const given = [model, source, files].filter((each) => each !== undefined).length;
  if (given !== 1) throw invalidRequest([{ path: [], message: "needs one of model, source and files" }]);
  if (model === undefined) {
    const pathOf = (index: number): string[] => (files === undefined ? ["source"] : ["files", String(index)]);
    return await fromFiles(context, files ?? [{ source: source ?? "" }], body, { ...asking, pathOf });
  }
  const choice = onlyChoice(model, await asking.typed.choices(model, asking.client));
  const { name, sources } = choice;
  const isAccepted = body.accept_license === true;
  if (choice.from === "registry") return await declared(context, name, isAccepted);
  if (choice.from === "catalog") return await catalogued(context, name, isAccepted);
  const wanted = sources.map((each) => ({ source: each }));
  return await fromFiles(context, wanted, body, { ...asking, pathOf: () => ["model"] });
}

/** A model of files that the client has named. `pathOf`: the field of the body that named each. Throws ApiError. */
async function fromFiles(
  context: ManagementContext,
  files: readonly WantedFile[],
  { ref, sha256, accept_license: isAccepted = false }: PullBody,
  { isTrusted, pathOf }: Asking & { readonly pathOf: (index: number) => string[] },
): Promise<Wanted> {
  const isOne = files.length === 1 && sha256 !== undefined;
  const wanted = isOne ? files.map((file) => ({ ...file, sha256 })) : files;
  const names = wanted.map((file, index) => checked(context, file, pathOf(index), isTrusted));
  await checkLicense(context, wanted, isAccepted);
  const name = ref ?? refIn(names[0] ?? "");
  if (!modelRefSchema.safeParse(name).success) throw unfit(["ref"], `"${name.slice(0, 100)}" is no ref: give one`);
  const known = context.index().models.get(name);
  const isOther = known !== undefined && canonicalJson(known.fetch?.files ?? []) !== canonicalJson(wanted);
  if (known?.origin === "manifest" && isOther) {
    const message = `a manifest declares ${name} with another source: pull {"model": "${name}"}, or give another ref`;
    throw new ApiError("dispatch.invalid_request", { status: 409, message });
  }
  return { ref: name, files: wanted };
}

/** A model of the catalogue. Throws ApiError where its licence is not accepted. */
async function catalogued(context: ManagementContext, ref: string, isAccepted: boolean): Promise<Wanted> {
  const entry = (await context.catalog()).find(({ spec, metadata }) => (spec.ref ?? metadata.name) === ref);
  if (entry === undefined) throw unknownModel(context, ref);
  const files = filesOf(entry.spec);
  await checkLicense(context, files, isAccepted);
  return { ref, files, ...(entry.spec.sizeBytes === undefined ? {} : { sizeBytes: entry.spec.sizeBytes }) };
}

/** Throws ApiError where the catalogue knows that the licence of one of these files must be accepted. */
async function checkLicense(
  context: ManagementContext,
  files: readonly WantedFile[],
  isAccepted: boolean,
): Promise<void> {
  if (isAccepted) return;
  const restricted = licensesOf(await context.catalog())(files);
  if (restricted === undefined) return;
  const { license, licenseUrl } = restricted;
  throw new ApiError("dispatch.invalid_request", {
    status: 409,
    message: `${licenseText(restricted)}; then pull it with accept_license (--accept-license)`,
    details: { path: ["accept_license"], license, license_url: licenseUrl },
  });
}

/** The files that the registry has for a ref. Throws ApiError `model.not_found`, or says why they are not fetched. */
async function declared(context: ManagementContext, ref: string, isAccepted: boolean): Promise<Wanted> {
  const record = context.index().models.get(ref);
  if (record === undefined) throw unknownModel(context, ref);
  if (record.fetch !== undefined) {
    // Its manifest may accept the licence.
    if (record.reason === "LicenseNotAccepted") await checkLicense(context, record.fetch.files, isAccepted);
    return { ref, ...record.fetch, isDeclared: record.origin === "manifest" };
  }
  throw new ApiError("dispatch.invalid_request", { status: 409, message: whyNot(record) });
}

function whyNot({ ref, state, message, source }: ModelRecord): string {
  if (state === "available") return `${ref} is on this machine already`;
  return `${ref} cannot be fetched: ${message ?? `its source is ${source}`}`;
}

/** A body of the right shape, with a text in it that names nothing to fetch. */
function unfit(path: readonly string[], message: string): ApiError {
  const details = { path: [...path], message };
  return new ApiError("dispatch.invalid_request", { status: 422, message: `${path.join(".")}: ${message}`, details });
}

/** The file's name. Throws ApiError for a source that may not be fetched over this API. */
function checked(context: ManagementContext, file: WantedFile, path: readonly string[], isTrusted: boolean): string {
  try {
    const source = parseSource(file.source);
    if (source.scheme === "hf") return file.as ?? source.fileName;
    if (source.scheme !== "https")
      throw unfit(
        path,
        "is fetched from hf:// and https:// only: declare others in models/, files of this machine with `berth model scan --write`",
      );
    if (isTrusted || !isInnerHost(source.url.hostname)) return file.as ?? source.fileName;
  } catch (error) {
    if (error instanceof FetchError) throw unfit(path, error.message);
    throw error;
  }
  throw new ApiError("auth.forbidden", {
    message: `a source may not lead to this machine or to its metadata over the API while authentication is off: declare the model in ${context.config.configDir}/models, or start with SVC_API_EXEC=1`,
    details: { path: [...path] },
  });
}

/** `name-00001-of-00003.gguf` is `name`. */
function refIn(fileName: string): string {
  return fileName.replace(/\.gguf$/i, "").replace(/-\d{5}-of-\d{5}$/, "");
}
