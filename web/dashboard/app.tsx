import { computed } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { needsToken } from "../shared/api.ts";
import { Boundary } from "../shared/boundary.tsx";
import { Toasts } from "../shared/toast.tsx";
import { TokenDialog } from "../shared/token-dialog.tsx";
import { TokenForm } from "../shared/token-form.tsx";
import { focusHeading } from "./focus.ts";
import { connection, follow, problems } from "./live.ts";
import { Announcer } from "./parts/announcer.tsx";
import { Palette } from "./parts/palette.tsx";
import { AskDialog } from "./parts/ask.tsx";
import { FurtherPage, isFurther, loadedPages } from "./pages/further-page.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { SlotPage } from "./pages/slot.tsx";
import { path, segments } from "./router.ts";
import { titleOf } from "./segments.ts";
import { Shell } from "./shell.tsx";

/** Not by the address: relative to `<base>`, that is another page's. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("main")?.focus();
}

export function App(): JSX.Element {
  const [session, setSession] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    void follow(stop.signal);
    return () => stop.abort();
  }, [session]);
  useEffect(() => void (document.title = titleOf(segments.value)), [path.value]);
  useNewPage();
  const begin = (): void => setSession(session + 1);
  // Later the form stands over the page, which keeps what a person has begun to write.
  const wasLetIn = useRef(false);
  wasLetIn.current ||= !needsToken.value && ["live", "refused"].includes(connection.value);
  if (needsToken.value && !wasLetIn.current) return <TokenForm onDone={begin} />;
  const [page = "slots", part] = segments.value ?? ["none"];
  return (
    <>
      <a class="unseen skip" href="#main" onClick={skipToMain}>
        Skip to the content
      </a>
      <Shell page={page}>
        <Problems />
        <Boundary key={pageKey.value}>{pageOf(segments.value ?? ["none"])}</Boundary>
      </Shell>
      {page === "slots" && <Announcer key={part} slot={part} />}
      <AskDialog />
      <Palette />
      <Toasts />
      {needsToken.value && <TokenDialog onDone={begin} />}
    </>
  );
}

/** The page that is shown; the tabs of one slot are the same page. */
const pageKey = computed(() => (segments.value ?? ["none"]).slice(0, 2).join("/"));

/** For a reader of the screen a page begins with its heading, wherever the link to it was. */
function useNewPage(): void {
  const shown = useRef(pageKey.value);
  const isHere = !isFurther(segments.value?.[0] ?? "slots") || loadedPages.value !== undefined;
  useEffect(() => {
    if (!isHere || shown.current === pageKey.value) return;
    shown.current = pageKey.value;
    focusHeading();
  }, [pageKey.value, isHere]);
}

function pageOf([page = "slots", name, part]: readonly string[]): ComponentChildren {
  if (page === "slots") return name === undefined ? <OverviewPage /> : <SlotPage key={name} name={name} part={part} />;
  if (isFurther(page)) return <FurtherPage page={page} part={name} />;
  return (
    <>
      <h1>No such page</h1>
      <p>
        Nothing is at the address <code>{path.value.slice(0, 200)}</code>. <a href="./">Overview</a>
      </p>
    </>
  );
}

function Problems(): JSX.Element | null {
  if (problems.value.length === 0) return null;
  return (
    <section role="alert" aria-label="Problems of the configuration">
      {problems.value.slice(0, 5).map(({ file, message }) => (
        <p key={`${file}${message}`}>{file === undefined ? message : `${file}: ${message}`}</p>
      ))}
      {problems.value.length > 5 && (
        <p>
          and {problems.value.length - 5} more: <code>berth config validate</code>
        </p>
      )}
    </section>
  );
}
