import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { storeDirectory } from "../../models/fetch/blob-store.ts";
import { ApiError } from "../../api/errors.ts";
import type { PullBody, PullView } from "../../api/management/pull-views.ts";
import type { ModelRecord, WantedFile } from "../../api/model.ts";
import { modelRefSchema } from "../../api/names.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { invalidRequest } from "../../api/problems.ts";
import type { PullRequest, PullStatus } from "../../api/pull.ts";
import { canonicalJson } from "../../lib/canonical.ts";
import { isInnerHost } from "../../lib/inner-addresses.ts";
import { Serial } from "../../lib/serial.ts";
import { FetchError } from "../../models/fetch/fetch-error.ts";
import { parseSource } from "../../models/fetch/source.ts";
import { licensesOf, licenseText } from "../../models/licenses.ts";
import { filesOf } from "../../models/fetch/wanted-model.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { refreshIfAbsent, unknownModel } from "./model-handlers.ts";
import { pullView } from "./pull-view.ts";

type PullHandlers = Pick<
  Handlers,
  "pullModel" | "listPulls" | "getPull" | "cancelPull" | "pausePull" | "verifyModel" | "resumePull"
>;

/** Of all callers together: each takes the operator's memory, and is tried again for as long as it fails. */
const mostPulls = 100;

interface Wanted {
  readonly ref: string;
  readonly files: readonly WantedFile[];
  readonly sizeBytes?: number | undefined;
  /** A manifest says where the files come from: it may name a server of this machine. */
  readonly isDeclared?: boolean;
}

/** Handlers of pulls. The gateway only writes down what is wanted: the operator fetches. */
export function pullHandlers(context: ManagementContext): PullHandlers {
  const { pulls, config } = context;
  const isTrusted = config.apiExec || config.authEnabled;
  /** Pulls begin one after the other, so that each counts the pulls before it. */
  const beginnings = new Serial();
  const put = async (wanted: Wanted, id: string, action: PullRequest["action"]): Promise<PullView> => {
    const { ref, sizeBytes, isDeclared = false } = wanted;
    const request: PullRequest = {
      schema: 1,
      id,
      ref,
      files: [...wanted.files],
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
      isOpen: !isTrusted && !isDeclared,
      action,
      requestedAt: new Date().toISOString(),
    };
    await pulls.put(request);
    return pullView(queued(request));
  };
  const begin = async (wanted: Wanted, action: PullRequest["action"]): Promise<PullView> => {
    const open = statuses(context).filter(({ endedAt, isForSlot }) => endedAt === undefined && isForSlot !== true);
    if (open.length >= mostPulls) {
      const message = `${open.length} pulls and checks have not ended: wait, or cancel some (\`berth pull list\`)`;
      throw new ApiError("system.overloaded", { message, headers: { "retry-after": "30" } });
    }
    return await put(wanted, randomUUID(), action);
  };
  const change = async (id: string, action: PullRequest["action"]): Promise<PullView> => {
    const status = pullNamed(context, id);
    if (status.endedAt !== undefined) {
      throw new ApiError("dispatch.invalid_request", {
        status: 409,
        message: `the pull ${id} is ${status.state} already`,
      });
    }
    if (action === "cancel" && status.isForSlot === true) {
      const { ref, slots = [] } = status;
      const [first, second] = slots;
      const needed = `${first === undefined ? "a slot" : slots.join(", ")} ${second === undefined ? "needs" : "need"} ${ref}`;
      const message = `${needed}: pause the pull, or have ${second === undefined ? "the slot" : "the slots"} hold another model`;
      throw new ApiError("model.in_use", { message, details: { ref, slots } });
    }
    // A request that was made over an open API stays marked so, whichever caller changes it.
    const known = pulls.request(id);
    // A slot's model was declared by a manifest, which may name a server of this machine.
    if (known === undefined) return await put({ ...status, isDeclared: status.isForSlot === true }, id, action);
    if (known.action === "verify" && action !== "cancel") {
      const message = `the check of ${known.ref} cannot be paused or resumed: cancel it, and begin another later`;
      throw new ApiError("dispatch.invalid_request", { status: 409, message });
    }
    if (known.action === "cancel" && action !== "cancel")
      throw new ApiError("dispatch.invalid_request", { status: 409, message: `the pull ${id} is being cancelled` });
    // Another time is another attempt: a failed one is tried again now.
    await pulls.put({ ...known, action, requestedAt: new Date().toISOString() });
    return pullView(status);
  };
  return {
    pullModel: async ({ body }) => {
      const wanted = await wantedBy(context, body, isTrusted);
      return await beginnings.run(async () => {
        const running = statuses(context).find(
          ({ ref, files, endedAt }) =>
            endedAt === undefined && ref === wanted.ref && canonicalJson(files) === canonicalJson(wanted.files),
        );
        if (running !== undefined && running.isForSlot !== true) return pullView(running);
        // A request that pauses the pull and one that runs it would end each other's attempts for ever.
        const known = running === undefined ? undefined : pulls.request(running.id);
        return known === undefined ? await begin(wanted, "run") : await change(known.id, "run");
      });
    },
    verifyModel: async ({ body: { model: ref } }) => {
      await refreshIfAbsent(context, ref);
      const record = context.index().models.get(ref);
      if (record === undefined) throw unknownModel(context, ref);
      const store = `${join(config.modelsDir, storeDirectory)}/`;
      const fetched = record.files.filter((path) => path.startsWith(store)).map((source) => ({ source }));
      const declared = Object.entries(record.checksums ?? {}).map(([path, sha256]) => ({
        source: pathToFileURL(path).href,
        sha256,
      }));
      const files: readonly WantedFile[] = [...fetched, ...declared];
      if (files.length === 0) {
        const message = `${ref} was not fetched by Berth, and no manifest names the sha256 of its files: no checksum is known`;
        throw new ApiError("dispatch.invalid_request", { status: 409, message });
      }
      return await beginnings.run(async () => await begin({ ref, files }, "verify"));
    },
    listPulls: () => ({ object: "list", data: [...pullViews(context)] }),
    getPull: ({ params: { id = "" } }) => pullView(pullNamed(context, id)),
    cancelPull: async ({ params: { id = "" } }) => await change(id, "cancel"),
    pausePull: async ({ params: { id = "" } }) => await change(id, "pause"),
    resumePull: async ({ params: { id = "" } }) => await change(id, "run"),
  };
}

/** Every pull: as the operator publishes it, or as a client requested it. */
function statuses({ pulls }: ManagementContext): readonly PullStatus[] {
  const published = pulls.published();
  const known = new Set(published.map(({ id }) => id));
  return [
    ...pulls
      .requests()
      .filter(({ id, action }) => !known.has(id) && action !== "remove")
      .map(queued),
    ...published,
  ];
}

/** Every pull as the API shows it. */
export function pullViews(context: ManagementContext): readonly PullView[] {
  return statuses(context).map(pullView);
}

/** Throws ApiError `system.not_found`. */
function pullNamed(context: ManagementContext, id: string): PullStatus {
  const found = statuses(context).find((status) => status.id === id);
  if (found !== undefined) return found;
  throw new ApiError("system.not_found", { message: `no pull has the id "${id.slice(0, 64)}"` });
}

function queued({ id, ref, files, sizeBytes, requestedAt, action }: PullRequest): PullStatus {
  const size = sizeBytes === undefined ? {} : { sizeBytes };
  const state = action === "pause" ? "paused" : "queued";
  return { id, ref, files, ...size, requestedAt, state, bytesDone: 0, stalls: 0 };
}

/** The model that the body names. Throws ApiError. */
async function wantedBy(context: ManagementContext, body: PullBody, isTrusted: boolean): Promise<Wanted> {
  const { model, source, files, ref, sha256 } = body;
  const isAccepted = body.accept_license === true;
  const given = [model, source, files].filter((each) => each !== undefined).length;
  if (given !== 1) throw invalidRequest([{ path: [], message: "needs one of model, source and files" }]);
  if (model !== undefined)
    return (await catalogued(context, model, isAccepted)) ?? (await declared(context, model, isAccepted));
  const wanted = files ?? [{ source: source ?? "", ...(sha256 === undefined ? {} : { sha256 }) }];
  const names = wanted.map((file, index) =>
    checked(context, file, files === undefined ? ["source"] : ["files", String(index)], isTrusted),
  );
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

/** A model of the catalogue that nothing of this installation replaces. Throws ApiError where its licence is not accepted. */
async function catalogued(context: ManagementContext, ref: string, isAccepted: boolean): Promise<Wanted | undefined> {
  if (context.index().models.has(ref)) return undefined;
  const entry = (await context.catalog()).find(({ spec, metadata }) => (spec.ref ?? metadata.name) === ref);
  if (entry === undefined) return undefined;
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
  const { models } = context.index();
  const record = models.get(ref);
  if (record === undefined) {
    const near = nearest(ref, models.keys());
    throw new ApiError("model.not_found", {
      message: `no model is called "${ref.slice(0, 200)}"${didYouMean(near)}: declare it in models/, pull its source, or see \`berth model catalog\``,
    });
  }
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
