"""Small traces in every format, for the tests of their readers."""

import gzip
from pathlib import Path

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,0"
)
MOONCAKE = "t_ms,in_tok,out_tok,prefix_hit_tok,group\n0,6758,500,0,0\n0,7322,490,512,1\n3000,7236,794,9999,1\n"
LINES = (
    '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
    '{"timestamp": 3000, "input_length": 1100, "output_length": 6, "hash_ids": [1, 3, 4]}\n'
    '{"timestamp": 3000, "input_length": 1000, "output_length": 7, "hash_ids": [1, 3]}\n'
)
SERVEGEN = "t_s,client,in_tok,out_tok\n1.5,66,31,8087\n2.0,54,179,341\n"
VTC = "req_time_s,client,prompt_len,output_len\n0.0,lora-13,13,199\n0.2,lora-2,36,137\n"
BURSTGPT = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,s1,2.5,ChatGPT,472,18,490,Conversation log\n"
    "45,s1,0,ChatGPT,1087,0,1087,Conversation log\n"
    "118,s2,0,GPT-4,417,276,693,API log\n"
)
SESSIONS = """\
trace_id,agent,idx,t_s,kind,model,in_tok,out_tok,prefix_shared_tok,api_s,think_s,stop
t1,main,0,0.000,n,m,100,20,0,7.00,0.00,tool_use
t1,main,1,58.000,subagent,Explore,,,,50.0,,completed
t1,main/1,0,0.000,n,m,10,5,0,2.00,0.00,tool_use
t1,main/1,1,5.000,n,m,20,5,10,4.00,3.00,end_turn
t1,main,2,68.000,subagent,Explore,,,,60.0,,completed
t1,main/2,0,0.000,n,m,30,5,0,50.00,0.00,end_turn
t1,main,3,70.000,n,m,200,30,100,6.00,61.00,tool_use
t1,main,4,76.500,subagent,general,,,,,,async_launched
t1,main/4,0,0.000,n,m,40,5,0,9.00,0.00,end_turn
t1,main,5,80.000,s,m,300,50,200,,4.00,end_turn
t1,main,6,90.000,s,m,400,50,300,5.00,,end_turn
t2,main,0,0.000,n,m,100,20,0,7.00,0.00,end_turn
"""


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    """The text as a file, compressed where the name says so."""
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path
