import {
  Boxes,
  Cpu,
  Ellipsis,
  LayoutDashboard,
  ListOrdered,
  MessageSquare,
  Network,
  Play,
  Settings,
  type IconNode,
} from "lucide";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call } from "../shared/api.ts";
import { Drawer } from "../shared/drawer.tsx";
import { Icon } from "../shared/icon.tsx";
import { Mark, showInTab } from "../shared/mark.tsx";
import { ThemeButton } from "../shared/theme.tsx";
import { troubles } from "./health.ts";
import { connection, lostBecause } from "./live.ts";
import { useLoaded } from "./parts/load.tsx";
import { path } from "./router.ts";
import { isPage, pageNames, type PageName } from "./segments.ts";

const icons = {
  slots: LayoutDashboard,
  models: Boxes,
  requests: ListOrdered,
  playground: Play,
  machine: Cpu,
  providers: Network,
  settings: Settings,
} as const satisfies Record<PageName, IconNode>;

/** On a phone these stand below the page; the others are under More. */
const onPhone = new Set<PageName>(["slots", "models", "requests"]);

/** The frame of each page: the rail at the left, or on a phone one line above and the tabs below. */
export function Shell({
  page,
  children,
}: {
  readonly page: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  const count = troubles.value.length;
  useEffect(() => showInTab(count > 0 ? "#c2452d" : "#2457d6"), [count > 0]);
  const names = Object.keys(pageNames).filter(isPage);
  return (
    <div class="shell">
      <header class="rail">
        <a class="brand" href="./">
          <Mark />
          <span>Berth</span>
        </a>
        <nav aria-label="Pages">
          <a class="button main" href="chat/" target="_self">
            <Icon of={MessageSquare} />
            <span>Chat</span>
          </a>
          {names.map((name) => (
            <PageLink key={name} name={name} isCurrent={page === name} />
          ))}
        </nav>
        <Foot />
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      <nav class="tabs-below" aria-label="Main pages">
        <PageLink name="slots" isCurrent={page === "slots"} />
        <a href="chat/" target="_self">
          <Icon of={MessageSquare} />
          <span>Chat</span>
        </a>
        <PageLink name="models" isCurrent={page === "models"} />
        <PageLink name="requests" isCurrent={page === "requests"} />
        <More names={names.filter((name) => !onPhone.has(name))} page={page} />
      </nav>
    </div>
  );
}

function PageLink({ name, isCurrent }: { readonly name: PageName; readonly isCurrent: boolean }): JSX.Element {
  return (
    <a
      href={name === "slots" ? "./" : `ui/${name}`}
      aria-current={isCurrent ? "page" : undefined}
      title={pageNames[name]}
    >
      <Icon of={icons[name]} />
      <span>{pageNames[name]}</span>
    </a>
  );
}

/** The pages of a phone that have no tab of their own, in a sheet. */
function More({ names, page }: { readonly names: readonly PageName[]; readonly page: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  // Before the new page takes the focus, which a sheet that closes gives back to its button.
  useLayoutEffect(() => setOpen(false), [path.value]);
  return (
    <>
      <button
        type="button"
        class="ghost"
        aria-haspopup="dialog"
        aria-current={names.some((name) => name === page) ? "page" : undefined}
        onClick={() => setOpen(true)}
      >
        <Icon of={Ellipsis} />
        <span>More</span>
      </button>
      {isOpen && (
        <Drawer title="More pages" onClose={() => setOpen(false)}>
          <nav class="more" aria-label="Further pages">
            {names.map((name) => (
              <PageLink key={name} name={name} isCurrent={page === name} />
            ))}
          </nav>
          <Foot />
        </Drawer>
      )}
    </>
  );
}

/** Health, version, colours; and the connection, where it is not as it should be. */
function Foot(): JSX.Element {
  const [status] = useLoaded(() => call("GET /api/status"));
  return (
    <div class="foot">
      <Health />
      <Connection />
      <div class="row">
        <span class="quiet version">{status.state === "here" && status.value.version}</span>
        <ThemeButton />
      </div>
    </div>
  );
}

function Health(): JSX.Element {
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => list.current?.hidePopover(), [path.value]);
  const all = troubles.value;
  if (connection.value === "connecting")
    return (
      <span class="pill">
        <span>Connecting</span>
      </span>
    );
  if (all.length === 0)
    return (
      <span class="pill good">
        <span>Healthy</span>
      </span>
    );
  return (
    <>
      <button type="button" class="ghost health" popovertarget={id}>
        <span class="pill bad">
          {all.length}
          <span>{all.length === 1 ? "problem" : "problems"}</span>
        </span>
      </button>
      <ul ref={list} id={id} class="troubles" popover="auto" aria-label="Problems">
        {all.slice(0, 20).map(({ what, message, href }) => (
          <li key={what + message}>
            {href === undefined ? <strong>{what}</strong> : <a href={href}>{what}</a>}: {message}
          </li>
        ))}
        {all.length > 20 && <li>and {all.length - 20} more: berth status</li>}
      </ul>
    </>
  );
}

function Connection(): JSX.Element {
  const texts = {
    connecting: "connecting …",
    live: "",
    lost: `not connected; trying again. ${lostBecause.value}`,
    refused: "not allowed",
  } as const;
  return (
    <span role="status" class={["lost", "refused"].includes(connection.value) ? "bad" : "quiet"}>
      {texts[connection.value]}
    </span>
  );
}
