import { rm } from "node:fs/promises";
import { ApiError } from "../../api/errors.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import type { ModelRecord } from "../../api/model.ts";
import type { ModelView } from "../../api/management/views.ts";
import { notFound as nothingCalled } from "../resolve.ts";
import type { Handlers } from "./api-server.ts";
import { viewOf, type ManagementContext } from "./context.ts";
import { v1Model, v1Models } from "./v1-models.ts";
import { modelViewNamed, modelViews } from "./views.ts";

type ModelHandlers = Pick<
  Handlers,
  | "listModels"
  | "getModel"
  | "deleteModel"
  | "modelCatalog"
  | "pullModel"
  | "listPulls"
  | "getPull"
  | "cancelPull"
  | "cachedImage"
  | "listV1Models"
  | "getV1Model"
>;

/** Handlers of models: the registry, and the list of `/v1`. */
export function modelHandlers(context: ManagementContext): ModelHandlers {
  return {
    listModels: () => ({ object: "list", data: modelViews(context.index()) }),
    getModel: ({ params: { ref = "" } }) => viewNamed(context, ref),
    deleteModel: async ({ params: { ref = "" }, query: { force, files } }) => {
      const view = viewNamed(context, ref);
      const model = context.index().models.get(ref);
      if (model === undefined) {
        // Its manifest was never valid: there is nothing else to remove.
        await context.writer.remove("Model", ref, { isKnown: true });
        return view;
      }
      if (view.slots.length > 0 && !force) {
        throw new ApiError("model.in_use", {
          message: `${ref} is held by ${view.slots.join(", ")}`,
          details: { ref, slots: view.slots },
        });
      }
      await removeModel(context, model, files);
      return view;
    },
    modelCatalog: () => {
      throw later("there is no catalogue of curated models in this version");
    },
    pullModel: () => {
      throw later("models are not fetched in this version: put the file into the models directory");
    },
    listPulls: () => ({ object: "list", data: [] }),
    getPull: ({ params: { id = "" } }) => {
      throw noPull(id);
    },
    cancelPull: ({ params: { id = "" } }) => {
      throw noPull(id);
    },
    cachedImage: async ({ params: { name = "" }, reply }) => {
      const image = await context.images.open(name);
      if (image === undefined) throw new ApiError("system.not_found", { message: "there is no such image any more" });
      return await reply
        .type("image/png")
        .header("content-length", image.sizeBytes)
        .header("cache-control", "private, max-age=86400, immutable")
        .send(image.file.createReadStream());
    },
    listV1Models: ({ query }) => ({
      object: "list",
      data: v1Models({ ...viewOf(context), startedAt: context.startedAt }, query),
    }),
    getV1Model: ({ params: { ref = "" } }) => {
      const found = v1Model({ ...viewOf(context), startedAt: context.startedAt }, ref);
      if (found === undefined) throw nothingCalled(context.index(), ref);
      return found;
    },
  };
}

async function removeModel({ writer }: ManagementContext, model: ModelRecord, withFiles: boolean): Promise<void> {
  if (model.origin === "manifest") {
    await writer.remove("Model", model.name ?? model.ref, { isKnown: true });
  } else if (!withFiles) {
    throw new ApiError("dispatch.invalid_request", {
      message: `${model.ref} is a file of the models directory, and goes only with that file`,
      details: { path: ["files"], message: "is needed" },
    });
  }
  if (withFiles) await Promise.all(model.files.map((file) => rm(file, { force: true })));
}

/** Throws ApiError `model.not_found`. */
function viewNamed(context: ManagementContext, ref: string): ModelView {
  const view = modelViewNamed(context.index(), ref);
  if (view === undefined) throw notFound(context, ref);
  return view;
}

function notFound(context: ManagementContext, ref: string): ApiError {
  const near = nearest(ref, context.index().models.keys());
  return new ApiError("model.not_found", { message: `no model is called "${ref.slice(0, 200)}"${didYouMean(near)}` });
}

function noPull(id: string): ApiError {
  return new ApiError("system.not_found", { message: `no fetch has the id "${id.slice(0, 64)}"` });
}

function later(message: string): ApiError {
  return new ApiError("system.not_implemented", { message });
}
