import { dirname } from "node:path";
import { ApiError } from "../../api/errors.ts";
import type { GroupStatus } from "../../api/group-status.ts";
import { groupViewSchema, type GroupView } from "../../api/management/group-routes.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { resourceKey } from "../../api/resource-status.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { emptiedDirectories } from "./emptied-directories.ts";
import { checkName, readManifest } from "./manifest-body.ts";
import { viewFrom } from "./view-from.ts";

type GroupHandlers = Pick<
  Handlers,
  "listGroups" | "getGroup" | "putGroup" | "deleteGroup" | "lendGroup" | "endGroupLoan"
>;

/** Handlers of groups. The gateway writes a loan down; the operator acts on it. */
export function groupHandlers(context: ManagementContext): GroupHandlers {
  const { groups, writer } = context;
  return {
    listGroups: () => ({ object: "list", data: [...groupViews(context)] }),
    getGroup: ({ params: { name = "" } }) => groupNamed(context, name),
    putGroup: async ({ params: { name = "" }, body, reply }) => {
      checkName(name);
      const { spec, labels } = readManifest("SlotGroup", body, name);
      const { outcome } = await writer.replace("SlotGroup", name, { spec, labels });
      void reply.code(outcome === "created" ? 201 : 202);
      return { name };
    },
    deleteGroup: async ({ params: { name = "" } }) => {
      const isKnown = groupNamed(context, name).declared;
      if (!(await writer.remove("SlotGroup", name, { isKnown })) && !isKnown) {
        throw new ApiError("system.not_found", { message: `no file declares group ${name}: slots only name it` });
      }
      return { name };
    },
    lendGroup: async ({ params: { name = "" }, body: { seconds } }) => {
      const group = groupNamed(context, name);
      const now = Date.now();
      const until = new Date(now + seconds * 1000).toISOString();
      await groups.lend({ schema: 1, group: name, until, requestedAt: new Date(now).toISOString() });
      return { ...group, lent_until: until };
    },
    endGroupLoan: async ({ params: { name = "" } }) => {
      const group = groupNamed(context, name);
      await groups.endLoan(name);
      return { ...group, lent_until: null };
    },
  };
}

/** Every group, declared or named by a slot. */
export function groupViews(context: ManagementContext): readonly GroupView[] {
  const { resources } = context.index();
  const published = new Map(context.groups.published().map((group) => [group.name, group]));
  const declared = [...resources.values()].flatMap(({ kind, name }) => (kind === "SlotGroup" ? [name] : []));
  return [...new Set([...published.keys(), ...declared])]
    .toSorted()
    .map((name) => groupView(context, name, published.get(name)));
}

const groupOf = viewFrom(groupViewSchema);

function groupView(context: ManagementContext, name: string, status: GroupStatus | undefined): GroupView {
  const { index, groups } = context;
  const resource = index().resources.get(resourceKey({ kind: "SlotGroup", name }));
  const until = groups.loan(name)?.until;
  return groupOf({
    name,
    declared: status?.isDeclared ?? resource?.group !== undefined,
    file: resource?.file,
    spec: resource?.group,
    budget: (status?.budget ?? []).map((each) => ({ ...each, free: Math.max(0, each.total - each.used) })),
    members: status?.members ?? [],
    lentUntil: until !== undefined && Date.parse(until) > Date.now() ? until : null,
    problems: [
      ...(status?.problems ?? []),
      ...emptiedDirectories(context)
        .filter(({ file }) => resource !== undefined && file === dirname(resource.file))
        .map(({ reason, message }) => ({ reason, message })),
    ],
    conditions: resource?.conditions ?? [],
  });
}

/** Throws ApiError `system.not_found`. */
function groupNamed(context: ManagementContext, name: string): GroupView {
  const all = groupViews(context);
  const found = all.find((group) => group.name === name);
  if (found !== undefined) return found;
  const near = nearest(
    name,
    all.map((group) => group.name),
  );
  throw new ApiError("system.not_found", {
    message: `no group is called "${name.slice(0, 64)}"${didYouMean(near)}: declare it in groups/, or name it in a slot`,
  });
}
