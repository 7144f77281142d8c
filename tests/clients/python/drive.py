"""Drives every tool of `procession mcp` with the official Python client.

    python drive.py PATH/TO/procession

Prints a line for each conversation; ends with 1 when one fell short, or when a tool was offered that none of them used.
"""

import asyncio
import base64
import os
import sys
import tempfile
import time
import traceback

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CONVERSATIONS = []


def conversation(function):
    CONVERSATIONS.append(function)
    return function


class Server:
    """A connection, and which tools were called through it."""

    def __init__(self, session):
        self.session = session
        self.called = set()

    async def raw(self, tool, arguments, **options):
        self.called.add(tool)
        return await self.session.call_tool(tool, arguments, **options)

    async def call(self, tool, **arguments):
        answer = await self.raw(tool, arguments)
        assert not answer.is_error, (tool, arguments, answer.content)
        assert answer.structured_content is not None, tool
        assert any(block.type == "text" and block.text for block in answer.content), tool
        return answer.structured_content

    async def refused(self, tool, code, **arguments):
        answer = await self.raw(tool, arguments)
        assert answer.is_error, (tool, arguments, answer.structured_content)
        error = answer.structured_content["error"]
        assert error["code"] == code and error["message"], error
        return error

    async def until_ended(self, answer):
        stdout = answer["stdout"]
        while answer["phase"] != "ended":
            answer = await self.call("session_poll", session_id=answer["session_id"], yield_time_ms=20000)
            stdout += answer["stdout"]
        return stdout, answer


@conversation
async def a_command_runs_to_its_end(server):
    answer = await server.call("session_start", command="echo out; echo err >&2; exit 3")
    stdout, answer = await server.until_ended(answer)
    assert stdout == "out\n", answer
    assert answer["outcome"]["status"] == {"kind": "exited", "code": 3}, answer
    assert answer["log"]["complete"] is True, answer
    seen = await server.call("session_inspect", session_id=answer["session_id"])
    assert seen["phase"] == "ended" and len(seen["decisions"]) > 20, seen


@conversation
async def input_goes_in_and_its_end_is_told(server):
    started = await server.call("session_start", argv=["cat"], stdin=True, yield_time_ms=0)
    session = started["session_id"]
    written = await server.call("session_write", session_id=session, input="hello\n", yield_time_ms=5000)
    assert written["accepted_bytes"] == 6, written
    bytes_too = base64.b64encode(b"\x00\xff").decode()
    await server.call("session_write", session_id=session, input_base64=bytes_too, yield_time_ms=0)
    await server.call("session_close_stdin", session_id=session)
    waited = await server.call("session_wait", sessions=[session], until=["exited"], timeout_ms=20000)
    assert waited["timed_out"] is False and waited["fired"][0]["session_id"] == session, waited
    page = await server.call("session_read_log", session_id=session, encoding="base64")
    raw = b"".join(base64.b64decode(run["base64"]) for run in page["runs"])
    assert raw == b"hello\n\x00\xff", page
    await server.refused("session_write", "session_ended", session_id=session, input="too late")


@conversation
async def a_terminal_has_its_size(server):
    started = await server.call("session_start", command="read line; stty size; echo sized; exec sleep 60", tty={"rows": 30, "cols": 90}, yield_time_ms=0)
    session = started["session_id"]
    await server.call("session_resize", session_id=session, rows=40, cols=100)
    answer = await server.call("session_write", session_id=session, input="go\n", yield_time_ms=5000)
    output = answer["stdout"]
    # Not before the shell itself goes on: one that waits for a program that ends by itself takes no interrupt.
    while "sized" not in output:
        answer = await server.call("session_poll", session_id=session, yield_time_ms=20000)
        assert answer["phase"] == "running", (output, answer)
        output += answer["stdout"]
    assert "40 100" in output, output
    await server.call("session_signal", session_id=session, signal="INT")
    _, answer = await server.until_ended(answer)
    assert answer["outcome"]["cause"] == "exit", answer


@conversation
async def a_stop_ends_the_whole_tree(server):
    started = await server.call("session_start", command="sleep 300 & sleep 300", background=True, label="two sleepers")
    session = started["session_id"]
    listed = await server.call("session_list", include_ended=False)
    assert [entry["label"] for entry in listed["sessions"] if entry["session_id"] == session] == ["two sleepers"]
    stopped = await server.call("session_stop", session_id=session)
    assert stopped["outcome"]["cause"] == "stop", stopped
    assert stopped["outcome"]["residual_pids"] == [], stopped


@conversation
async def what_was_left_out_can_be_searched_and_read(server):
    started = await server.call("session_start", command="seq 1 20000", max_output_bytes=256)
    stdout, answer = await server.until_ended(started)
    assert len(stdout.encode()) < 4096 and started["omitted_bytes"] + answer["omitted_bytes"] > 0
    found = await server.call("session_search_log", session_id=answer["session_id"], pattern="12345")
    offset = found["matches"][0]["offset"]
    page = await server.call("session_read_log", session_id=answer["session_id"], offset=offset, max_bytes=32)
    assert page["runs"][0]["text"].startswith("12345\n"), page


@conversation
async def calls_run_side_by_side(server):
    began = time.monotonic()
    started = await asyncio.gather(
        *(server.call("session_start", command="sleep 1", yield_time_ms=0) for _ in range(8))
    )
    polls = [server.call("session_poll", session_id=answer["session_id"], yield_time_ms=20000) for answer in started]
    answers = await asyncio.gather(*polls)
    assert all(answer["phase"] == "ended" for answer in answers), answers
    assert time.monotonic() - began < 8, "one after another they would take as long"


@conversation
async def what_cannot_be_done_says_why(server):
    await server.refused("session_poll", "not_found", session_id="ps_0000000000000000")
    error = await server.refused("session_start", "failed_to_start", argv=["no-such-program-anywhere"])
    assert error["kind"] == "not_found", error


async def main(program):
    with tempfile.TemporaryDirectory() as place:
        environment = {"PATH": os.environ["PATH"], "HOME": place, "XDG_STATE_HOME": place, "XDG_CONFIG_HOME": place}
        parameters = StdioServerParameters(command=program, args=["mcp"], env=environment, cwd=place)
        async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as session:
            initialized = await session.initialize()
            assert initialized.server_info.name == "procession" and initialized.instructions
            offered = (await session.list_tools()).tools
            for tool in offered:
                assert tool.description and tool.input_schema["type"] == "object" and tool.annotations, tool.name
            server, short = Server(session), []
            for function in CONVERSATIONS:
                name = function.__name__.replace("_", " ")
                try:
                    await asyncio.wait_for(function(server), timeout=60)
                    print("pass ", name)
                except Exception:  # noqa: BLE001  (the others are tried all the same)
                    traceback.print_exc()
                    print("SHORT", name)
                    short.append(name)
            unused = {tool.name for tool in offered} - server.called
            if unused:
                print("never called:", ", ".join(sorted(unused)))
            print(f"{len(CONVERSATIONS) - len(short)} passed, {len(short)} failed, {len(server.called)} tools called")
            return 1 if short or unused else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
