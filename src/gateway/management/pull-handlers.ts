import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { storeDirectory } from "../../models/fetch/blob-store.ts";
import { ApiError } from "../../api/errors.ts";
import type { PullView } from "../../api/management/pull-views.ts";
import type { WantedFile } from "../../api/model.ts";
import type { PullRequest, PullStatus } from "../../api/pull.ts";
import { canonicalJson } from "../../lib/canonical.ts";
import { Serial } from "../../lib/serial.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { refreshIfAbsent, unknownModel } from "./model-handlers.ts";
import { TypedModels } from "./model-choices.ts";
import { pullView } from "./pull-view.ts";
import { wantedBy, type Wanted } from "./wanted-pull.ts";

type PullHandlers = Pick<
  Handlers,
  "pullModel" | "modelChoices" | "listPulls" | "getPull" | "cancelPull" | "pausePull" | "verifyModel" | "resumePull"
>;

/** The most pulls of all callers together: each takes the operator's memory, and is tried again for as long as it fails. */
const mostPulls = 100;

/** Handlers of pulls. The gateway only writes down what is wanted: the operator fetches. */
export function pullHandlers(context: ManagementContext): PullHandlers {
  const { pullRequests, config } = context;
  const isTrusted = config.apiExec || config.authEnabled;
  const typed = new TypedModels(context);
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
    await pullRequests.put(request);
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
    const known = pullRequests.get(id);
    // A slot's model was declared by a manifest, which may name a server of this machine.
    if (known === undefined) return await put({ ...status, isDeclared: status.isForSlot === true }, id, action);
    if (known.action === "verify" && action !== "cancel") {
      const message = `the check of ${known.ref} cannot be paused or resumed: cancel it, and begin another later`;
      throw new ApiError("dispatch.invalid_request", { status: 409, message });
    }
    if (known.action === "cancel" && action !== "cancel")
      throw new ApiError("dispatch.invalid_request", { status: 409, message: `the pull ${id} is being cancelled` });
    // Another time is another attempt: a failed one is tried again now.
    await pullRequests.put({ ...known, action, requestedAt: new Date().toISOString() });
    return pullView(status);
  };
  return {
    modelChoices: async ({ query: { name }, request }) => await typed.choices(name, request.raw),
    pullModel: async ({ body, request }) => {
      const wanted = await wantedBy(context, body, { typed, isTrusted, client: request.raw });
      return await beginnings.run(async () => {
        const running = statuses(context).find(
          ({ ref, files, endedAt }) =>
            endedAt === undefined && ref === wanted.ref && canonicalJson(files) === canonicalJson(wanted.files),
        );
        if (running !== undefined && running.isForSlot !== true) return pullView(running);
        // A request that pauses the pull and one that runs it would end each other's attempts for ever.
        const known = running === undefined ? undefined : pullRequests.get(running.id);
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
        const message = `${ref} was not fetched by Berth, and no manifest names the sha256 of its files: name it in the model's manifest (docs/models.md), or pull the model`;
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
function statuses({ pullRequests, pulls }: ManagementContext): readonly PullStatus[] {
  const published = pulls.only()?.pulls ?? [];
  const known = new Set(published.map(({ id }) => id));
  return [
    ...pullRequests
      .list()
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
  const ofCheck = action === "verify" ? { isCheck: true as const } : {};
  return { id, ref, files, ...size, ...ofCheck, requestedAt, state, bytesDone: 0, stalls: 0 };
}
