import { ApiError } from "../../api/errors.ts";
import { knownNames, nearest } from "../../api/nearest.ts";
import type { ModelView } from "../../api/management/views.ts";
import { notFound as nothingCalled } from "../routing/resolve.ts";
import type { Handlers } from "./api-server.ts";
import { catalogViews } from "./catalog-views.ts";
import { viewOf, type ManagementContext } from "./context.ts";
import { v1Model, v1Models } from "./v1-models.ts";
import { modelViewNamed, modelViews } from "./views.ts";

type ModelHandlers = Pick<
  Handlers,
  "listModels" | "getModel" | "modelCatalog" | "cachedImage" | "listV1Models" | "getV1Model"
>;

/** Handlers of models: the registry, and the list of `/v1`. */
export function modelHandlers(context: ManagementContext): ModelHandlers {
  return {
    listModels: async () => {
      await context.refreshModels();
      return { object: "list", data: modelViews(context.index()) };
    },
    getModel: async ({ params: { ref = "" } }) => await modelNamed(context, ref),
    modelCatalog: async () => ({ object: "list", data: await catalogViews(context) }),
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

/** Throws ApiError `model.not_found`. */
export async function modelNamed(context: ManagementContext, ref: string): Promise<ModelView> {
  await refreshIfAbsent(context, ref);
  const view = modelViewNamed(context.index(), ref);
  if (view === undefined) throw unknownModel(context, ref);
  return view;
}

/** Reads the published models again where this one is not on the machine: its pull may just have completed. */
export async function refreshIfAbsent({ index, refreshModels }: ManagementContext, ref: string): Promise<void> {
  if (index().models.get(ref)?.state !== "available") await refreshModels();
}

/** The error for an unknown ref, with some of those that exist. */
export function unknownModel(context: ManagementContext, ref: string): ApiError {
  const near = nearest(ref, context.index().models.keys());
  const known = knownNames(near, context.index().models.keys());
  return new ApiError("model.not_found", { message: `no model is called "${ref.slice(0, 200)}"${known}` });
}
