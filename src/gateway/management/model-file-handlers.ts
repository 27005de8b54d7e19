import { resolve, join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { ApiError } from "../../api/errors.ts";
import {
  scanViewSchema,
  type ModelRemoval,
  type ScanBody,
  type ScanView,
} from "../../api/management/model-file-views.ts";
import type { ModelView } from "../../api/management/views.ts";
import { withoutSignatures } from "../../api/masked-text.ts";
import type { ModelRecord } from "../../api/model.ts";
import type { FoundModel } from "../../api/model-task.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { storeDirectory } from "../../models/fetch/blob-store.ts";
import { flmTag } from "../../models/fetch/flm.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { modelNamed } from "./model-handlers.ts";
import { askOperator } from "./model-task.ts";
import { viewFrom } from "./view-from.ts";

type FileHandlers = Pick<Handlers, "deleteModel" | "scanModels" | "collectModels">;

/** Handlers that have the operator delete files of models, or scan for them. */
export function modelFileHandlers(context: ManagementContext): FileHandlers {
  return {
    deleteModel: async ({ params: { ref = "" }, query, request }) => {
      const view = await modelNamed(context, ref);
      const model = context.index().models.get(ref);
      if (view.slots.length > 0 && !query.force) {
        throw new ApiError("model.in_use", {
          message: `${ref} is held by ${view.slots.join(", ")}`,
          details: { ref, slots: view.slots },
        });
      }
      if (model === undefined) {
        // Its manifest was never valid: there is nothing else to remove.
        if (!query.dry_run) await context.writer.remove("Model", ref, { isKnown: true });
        return removal(view, undefined);
      }
      if (model.origin !== "manifest" && !query.files) {
        throw new ApiError("dispatch.invalid_request", {
          message: `${ref} is a file of the models directory, and goes only with that file`,
          details: { path: ["files"], message: "is needed" },
        });
      }
      const isDryRun = query.dry_run;
      if (model.origin === "manifest" && !isDryRun)
        await context.writer.remove("Model", model.name ?? ref, { isKnown: true });
      if (!query.files) return removal(view, undefined);
      const files = plainFiles(context, model);
      const tag = flmTag([{ source: model.source }]);
      const flm = tag === undefined ? {} : { flm: tag };
      const answer = await askOperator(
        context,
        { kind: "remove", ref, files, ...flm, isDryRun },
        request.raw,
        !isDryRun,
      );
      const kept = new Map((answer?.kept ?? []).map((each) => [each.path, each]));
      const [first] = kept.values();
      // Without its manifest a model is gone though its files stay; one that was found is still there.
      if (model.origin !== "manifest" && first !== undefined && model.files.every((file) => kept.has(file))) {
        const message = `${ref} was not removed: ${first.path} stays: ${first.reason}`;
        throw new ApiError("dispatch.invalid_request", { status: 409, message });
      }
      return removal(view, answer);
    },
    scanModels: async ({ body, request }) => await scanned(context, body, request.raw),
    collectModels: async ({ body: { dry_run: isDryRun = false }, request }) => {
      const answer = await askOperator(context, { kind: "collect", isDryRun }, request.raw, false);
      const files = (answer?.leftovers ?? []).map(({ path, kind, sizeBytes, source }) => ({
        path,
        kind,
        size_bytes: sizeBytes,
        source: source === undefined ? null : withoutSignatures(source),
      }));
      const bytes = files.reduce((sum, { size_bytes: size }) => sum + size, 0);
      return { dry_run: isDryRun, bytes, files, kept: answer?.kept ?? [] };
    },
  };
}

function removal(view: ModelView, answer: Awaited<ReturnType<typeof askOperator>>): ModelRemoval {
  return { ...view, freed_bytes: answer?.freedBytes ?? null, kept: answer?.kept ?? [] };
}

/** The files outside the store of fetched files. */
function plainFiles({ config }: ManagementContext, { files, projectorPath }: ModelRecord): string[] {
  const store = `${join(config.modelsDir, storeDirectory)}${sep}`;
  const all = projectorPath === undefined ? files : [...files, projectorPath];
  return all.filter((file) => !file.startsWith(store));
}

const foundOf = viewFrom(scanViewSchema.shape.data.element);

async function scanned(
  context: ManagementContext,
  { directories = [], write = false }: ScanBody,
  client: Parameters<typeof askOperator>[2],
): Promise<ScanView> {
  const { config, writer } = context;
  const outside = directories.filter((directory) => !isBelow(directory, config.modelsDir));
  // Every caller of the API would see the names of files, and a manifest makes an engine read them.
  if (outside.length > 0 && !(config.apiExec || (config.authEnabled && !write))) {
    throw new ApiError("auth.forbidden", {
      message: `${outside[0] ?? ""} is not below the models directory ${config.modelsDir}: link it there (ln -s), or start with SVC_API_EXEC=1`,
      details: { path: ["directories"] },
    });
  }
  if (write) {
    const reason = await writer.readOnlyReason();
    if (reason !== undefined) throw new ApiError("config.read_only", { message: reason });
  }
  const answer = await askOperator(context, { kind: "scan", directories }, client, false);
  const data: ScanView["data"] = [];
  for (const found of answer?.models ?? []) {
    const manifest = found.state === "new" ? manifestOf(found) : undefined;
    const failure = write && manifest !== undefined ? await failureToWrite(context, manifest) : undefined;
    data.push(
      foundOf({
        ...found,
        id: found.ref,
        message: failure ?? found.message,
        manifest: manifest === undefined ? null : { ...manifest, written: write && failure === undefined },
      }),
    );
  }
  return { object: "list", data };
}

/** Why the manifest cannot be written; undefined once it is. The manifests of other models are written all the same. */
async function failureToWrite({ writer }: ManagementContext, { name, spec }: Manifest): Promise<string | undefined> {
  try {
    await writer.create("Model", name, { spec });
    return undefined;
  } catch (error) {
    const what = `its manifest ${name} was not written: ${errorMessage(error)}`;
    const isDeclared = error instanceof ApiError && error.code === "slot.already_exists";
    return isDeclared ? `${what}: see \`berth model list\`, or give the file another name` : what;
  }
}

function isBelow(path: string, root: string): boolean {
  return resolve(path) === resolve(root) || resolve(path).startsWith(`${resolve(root)}${sep}`);
}

interface Manifest {
  readonly name: string;
  readonly spec: Record<string, string | string[] | { source: string }[]>;
}

/** The manifest that declares a found model, without the fields that a GGUF's header has. */
function manifestOf({ ref, files, projectorPath, capabilities, architecture }: FoundModel): Manifest {
  const name = ref.replaceAll(/[^A-Za-z0-9._-]/g, "-");
  const sources = [...files, ...(projectorPath === undefined ? [] : [projectorPath])].map(
    (path) => pathToFileURL(path).href,
  );
  const [source = ""] = sources;
  return {
    name,
    spec: {
      ...(name === ref ? {} : { ref }),
      ...(sources.length === 1 ? { source } : { files: sources.map((each) => ({ source: each })) }),
      ...(architecture === undefined && capabilities.length > 0 ? { capabilities } : {}),
    },
  };
}
